"""One file on its way from bytes to pieces, and the lines that could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.errors import Finding, FindingsError, Location
from app.events import row_files
from app.events.learnt import Learnt, Piece
from app.events.opened import EventFile
from app.events.row_files import FileFormat, Outcome
from app.events.rows import Row, piece_of_rows

MAX_FINDINGS = 20
"""Unreadable lines that are shown; all are counted."""


@dataclass(slots=True)
class Unreadable:
    """Lines that are no events: all are counted, the first are kept."""

    count: int = 0
    findings: list[Finding] = field(default_factory=list)
    further: Location | None = None
    """The first that is not kept."""

    def add(self, file: EventFile, lines: Iterable[tuple[int, str]]) -> None:
        """Notes (0-based line, what is wrong with it), in the order of the lines."""
        for line, message in lines:
            self.count += 1
            place = Location(file.name, line + 1, 1)
            if len(self.findings) < MAX_FINDINGS:
                self.findings.append(Finding(message, place))
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
        lines: how many lines (records) were read so far.
    """

    file: EventFile
    format: FileFormat
    learnt: Learnt
    unreadable: Unreadable
    textual: frozenset[str] = frozenset()
    lines: int = 0

    def of_rows(self, outcomes: Iterable[Outcome]) -> Iterator[Piece]:
        """Pieces of rows; what is wrong is noted."""
        chunk: list[Row] = []
        bad: list[tuple[int, str]] = []
        for outcome in outcomes:
            if not isinstance(outcome, Row):
                bad.append(outcome)
                continue
            chunk.append(outcome)
            if len(chunk) == row_files.CHUNK:
                yield from self._of_chunk(chunk, bad)
                chunk, bad = [], []
        yield from self._of_chunk(chunk, bad)

    def _of_chunk(self, chunk: Sequence[Row], bad: Sequence[tuple[int, str]]) -> Iterator[Piece]:
        piece, wrong = piece_of_rows(chunk, self.learnt)
        self.unreadable.add(self.file, sorted([*bad, *wrong]))
        if piece is not None:
            yield piece
