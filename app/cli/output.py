"""``--output json``: what a command found, for programs. One object per line; keys stay, others may come."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer


class Output(StrEnum):
    """For whom a command prints."""

    text = "text"
    json = "json"


OutputOption = Annotated[Output, typer.Option("--output", help="text for people, json for programs: one object per line.")]
"""The option of every command that prints a result."""


def write_json(value: Any) -> None:
    """One object, on one line, at once."""
    print(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY, default=str).decode(), flush=True)
