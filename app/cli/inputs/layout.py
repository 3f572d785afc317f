"""Options that say how files of events are laid out: what the settings would say of a stream, and what only files have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from app.errors import CepError
from app.files.row_files import TimeUnit

SIGNS = {"tab": "\t", "\\t": "\t"}
"""How separators are written that shells make hard to write."""

SeparatorOption = Annotated[
    str | None, typer.Option("--separator", help="What separates the columns of CSV files: one character, or tab.", show_default=",")
]
TimeColumnOption = Annotated[
    str | None,
    typer.Option(
        "--time-column", help="Which column, or attribute, is the time.", show_default="streams.NAME.time of the settings, or time"
    ),
]
TimeUnitOption = Annotated[
    TimeUnit,
    typer.Option("--time-unit", help="What times are that are numbers, since 1970; ISO-8601 texts and timestamp types say it themselves."),
]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in files what stands.

    Attributes:
        separator: of the columns of CSV files; None: commas.
        time_column: with the time; None: as the settings say.
        time_unit: of numbers there.
    """

    separator: str | None = None
    time_column: str | None = None
    time_unit: TimeUnit = "ms"


AS_TOLD = Layout()
"""Where no option says anything: as the settings have it."""


def layout_of(separator: str | None, time_column: str | None, time_unit: TimeUnit) -> Layout:
    """What the options say.

    >>> layout_of(";", None, "s").separator, layout_of("tab", None, "s").separator == chr(9)
    (';', True)

    Raises:
        CepError: a separator that is none.
    """
    sign = None if separator is None else SIGNS.get(separator, separator)
    if sign is None:
        return Layout(None, time_column, time_unit)
    if len(sign) != 1:
        raise CepError(f'--separator "{sign}" has {len(sign)} characters\nhint: one separates columns, as ";", "|" or tab')
    if not sign.isascii() or sign.isalnum() or sign in '"\r\n':
        raise CepError(
            f'--separator {sign!r}: a letter, a digit, a quote or the end of a line separates no columns\nhint: as ";", "|" or tab'
        )
    return Layout(sign, time_column, time_unit)
