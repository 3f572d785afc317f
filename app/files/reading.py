"""One file on its way from bytes to pieces, and the lines that could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.errors import Finding, FindingsError, Location
from app.events.learnt import Learnt, Piece
from app.events.rows import Row, piece_of_rows
from app.files import row_files
from app.files.doubts import FileDoubts
from app.files.opened import EventFile
from app.files.row_files import FileFormat, Outcome

MAX_FINDINGS = 20
"""Unreadable lines that are shown; all are counted."""

Wrong = tuple[int, str] | tuple[int, str, int]
"""A line and what is wrong with it, perhaps with the column, see `Outcome`."""


@dataclass(slots=True)
class Unreadable:
    """Lines that are no events: all are counted, the first are kept."""

    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    further: Location | None = None
    """The first that is not kept."""

    def add(self, file: EventFile, lines: Iterable[Wrong], hint: str | None = None) -> None:
        """Notes (0-based line, what is wrong with it, perhaps the column), in the order of the lines; the hint belongs to the first."""
        for line, message, *columns in lines:
            self.count += 1
            place = Location(file.name, line + 1, int(columns[0]) if columns else 1)
            if len(self.findings) < MAX_FINDINGS:
                self.findings.append(Finding(message, place, hint))
                hint = None
            elif self.further is None:
                self.further = place

    def stop(self) -> None:
        """Tells of them.

        Raises:
            FindingsError: there are any.
        """
        if not self.count:
            return
        more = self.count - len(self.findings)
        raise FindingsError([*self.findings, *([Finding(f"{more} more unreadable lines", self.further)] if more else [])])


@dataclass(slots=True)
class Reading:
    """One file on its way.

    Attributes:
        textual: columns of CSV files that are text, as was found out after they had been taken for something else.
        hint: for the next line that is wrong.
        doubts: what is odd about the file; None: nobody asks.
        lines: how many lines (records) were read so far.
    """

    file: EventFile
    format: FileFormat
    learnt: Learnt
    unreadable: Unreadable
    textual: frozenset[str] = frozenset()
    doubts: FileDoubts | None = None
    hint: str | None = None
    lines: int = 0

    def of_rows(self, outcomes: Iterable[Outcome]) -> Iterator[Piece]:
        """Pieces of rows; what is wrong is noted."""
        chunk: list[Row] = []
        bad: list[Wrong] = []
        for outcome in outcomes:
            if not isinstance(outcome, Row):
                bad.append(outcome)
                continue
            chunk.append(outcome)
            if len(chunk) == row_files.CHUNK:
                yield from self._of_chunk(chunk, bad)
                chunk, bad = [], []
        yield from self._of_chunk(chunk, bad)

    def _of_chunk(self, chunk: Sequence[Row], bad: Sequence[Wrong]) -> Iterator[Piece]:
        piece, wrong = piece_of_rows(chunk, self.learnt)
        self.unreadable.add(self.file, sorted([*bad, *wrong]), self.hint)
        self.hint = None if bad or wrong else self.hint
        if piece is not None:
            yield piece
