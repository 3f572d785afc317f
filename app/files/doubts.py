"""What is odd about files of events without being an error: said as warnings, so that results that come of it surprise nobody."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from app.errors import Finding, Location, Severity
from app.events.batch import Column
from app.files.headers import COMMANDS
from app.files.row_files import TimeUnit

MAX_COLUMNS = 3
"""Columns of a file that are told about."""
SAMPLED = 1000
"""Times of a piece that are looked at."""
UNITS = ((10**9, 4 * 10**9, "seconds"), (10**14, 10**17 - 1, "microseconds"), (10**17, 1 << 63, "nanoseconds"))
"""First and last time, ms, that numbers of another unit since 1970 look like: seconds from 2001 to 2096 are January and February 1970; what lies beyond the year 5138 is finer."""
UNIT_OPTIONS = {"seconds": "s", "microseconds": "us", "nanoseconds": "ns"}
UNIT_NAMES = {option: name for name, option in UNIT_OPTIONS.items()}
LATEST_MS = 253_402_300_799_999
"""The end of the year 9999: later times are no dates."""
WORDS = 10_000
"""Cells that are words after which a column without numbers is looked at no longer: each distinct one costs half a microsecond."""
MAX_CELL = 40
"""Characters of a cell that are shown."""
_number = re.compile(rb"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_identifier = re.compile(rb"0\d+")


@dataclass(slots=True)
class TextColumn:
    """Cells of a column that is text.

    Attributes:
        numbers: cells that are numbers.
        others: cells that are not, empty ones aside.
        line: 0-based line of the first that is not.
        value: what it holds.
    """

    numbers: int = 0
    others: int = 0
    line: int = -1
    value: str = ""

    @property
    def doubtful(self) -> bool:
        """Whether it was probably meant to be numbers. Numbers that begin with a zero are identifiers, as are those that stand beside more words than numbers."""
        return self.others > 0 and self.numbers >= self.others and not _identifier.fullmatch(self.value.encode())

    def add(self, column: Column, lines: NDArray[np.int64]) -> None:
        """Counts cells, each distinct one looked at once."""
        if column.dictionary is None or not len(lines) or self.others > max(WORDS, 10 * self.numbers):
            return
        entries = column.dictionary.entries()
        present = np.ones(len(lines), dtype=bool) if column.state is None else column.state == 0
        numeric = np.array([_number.fullmatch(entry) is not None for entry in entries], dtype=bool)[column.values] & present
        words = np.flatnonzero(present & ~numeric)
        if len(words) and not self.others:
            self.line, self.value = int(lines[words[0]]), entries[column.values[words[0]]].decode(errors="replace")
        self.numbers += int(numeric.sum())
        self.others += len(words)


@dataclass(slots=True)
class FileDoubts:
    """What is odd about one file.

    Attributes:
        name: of the file.
        time_unit: what its numbers are taken for.
        texts: of a CSV file, by column.
        times: of every piece some, ms.
    """

    name: str
    time_unit: TimeUnit = "ms"
    texts: dict[str, TextColumn] = field(default_factory=dict)
    times: list[NDArray[np.int64]] = field(default_factory=list)

    def add_times(self, time: NDArray[np.int64]) -> None:
        """Takes note of the times of a piece."""
        self.times.append(time[:: len(time) // SAMPLED + 1].copy())

    def add_texts(self, name: str, column: Column, lines: NDArray[np.int64]) -> None:
        """Takes note of cells of a column that is text."""
        self.texts.setdefault(name, TextColumn()).add(column, lines)

    def findings(self) -> list[Finding]:
        """Warnings, in the order of the columns."""
        doubtful = [(name, column) for name, column in self.texts.items() if column.doubtful]
        return [*self._unit(), *(self._text(name, column) for name, column in doubtful[:MAX_COLUMNS])]

    def _unit(self) -> list[Finding]:
        """Whether numbers are probably of another unit than they are taken for."""
        times = np.concatenate([np.zeros(0, np.int64), *self.times])
        median = int(np.median(times)) if len(times) else 0
        unit = next((unit for first, last, unit in UNITS if first <= median <= last), None)
        if unit is None:
            return []
        if self.time_unit != "ms":
            message = (
                f"{self.name}: times lie {_when(median)}: are they {UNIT_NAMES[self.time_unit]}, as --time-unit {self.time_unit} says?"
            )
            return [Finding(message, None, "without the option numbers are milliseconds since 1970", Severity.WARNING)]
        message = f"{self.name}: times lie {_when(median)}: are they {unit}?"
        hint = (
            f"numbers are taken for milliseconds since 1970 unless --time-unit {UNIT_OPTIONS[unit]} of {COMMANDS} says otherwise; or write ISO-8601 texts, "
            "or in Avro and Parquet a timestamp type, which says its unit (streams.NAME.time says which attribute is the time)"
        )
        return [Finding(message, None, hint, Severity.WARNING)]

    def _text(self, name: str, column: TextColumn) -> Finding:
        total = column.numbers + column.others
        message = f"{name} is a number in {column.numbers:,} of {total:,} lines, here {_quoted(column.value)}: the column is read as text"
        hint = "leave cells without a value empty, and write numbers as 1234.5; or give the stream a schema in the settings"
        return Finding(message, Location(self.name, column.line + 1, 1), hint, Severity.WARNING)


def _quoted(value: str) -> str:
    """A cell on one line, its end left out where it is long."""
    shown = value if len(value) <= MAX_CELL else f"{value[:MAX_CELL]}…"
    return f'"{shown}"'.replace("\n", "\\n").replace("\r", "\\r")


def _when(time_ms: int) -> str:
    """When a time is, as in "times lie in 1970-01-21"."""
    if time_ms > LATEST_MS:
        return "beyond the year 9999"
    return f"in {(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)).date().isoformat()}"
