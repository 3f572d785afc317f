"""Errors and findings: what a person wrote wrongly, where, and what to write instead.

Only people cause exceptions. Data never does: a bad record becomes a dead letter with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from errno import EDQUOT, ENOSPC

NO_SPACE = (ENOSPC, EDQUOT)
"""Errors of the system that say a disk, or what is ours of it, is full."""


SHOWN, SHOWN_BEFORE = 400, 100
"""Characters of a line that are shown, and how many of them stand before its mistake: a line of thousands hides what is said about it."""


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a text that a person wrote. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    length: int = 1
    source: str = ""
    """The whole line of the text, so that the error can show it; empty when unknown."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class Severity(StrEnum):
    """An error stops; a warning (lint) does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with a text: message in lower case without full stop, place, and advice."""

    message: str
    location: Location | None = None
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def render(self) -> str:
        """Text in the form of compilers: location, message, the line with a caret, the hint.

        >>> place = Location("q.yaml", 9, 8, 3, 'where: "bad"')
        >>> print(Finding("no such attribute", place, 'did you mean "bat"?').render())
        q.yaml:9:8: no such attribute
            9 | where: "bad"
              |        ^^^
        hint: did you mean "bat"?
        """
        head = f"{self.location}: " if self.location else ""
        label = "warning: " if self.severity is Severity.WARNING else ""
        lines = [f"{head}{label}{self.message}"]
        if self.location and self.location.source:
            number = f"{self.location.line:>5}"
            shown, column, length = _excerpt(self.location)
            lines.append(f"{number} | {shown}")
            lines.append(f"{' ' * len(number)} | {' ' * (column - 1)}{'^' * max(1, length)}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


def _excerpt(place: Location) -> tuple[str, int, int]:
    """The line of a place, where in it the place begins, and how long it is; of a long line what stands around it.

    >>> line, column, length = _excerpt(Location("q.yaml", 1, 5_000, 3_000, "=" * 10_000))
    >>> len(line), line[column - 2 : column + 1], length
    (400, '===', 299)
    """
    if len(place.source) <= SHOWN:
        return place.source, place.column, place.length
    first = min(max(0, place.column - 1 - SHOWN_BEFORE), len(place.source) - SHOWN)
    shown = place.source[first : first + SHOWN]
    before, behind = "…" if first else shown[0], "…" if first + SHOWN < len(place.source) else shown[-1]
    column = place.column - first
    return f"{before}{shown[1:-1]}{behind}", column, min(place.length, SHOWN - column - (behind == "…") + 1)


class CepError(Exception):
    """The base of every error that this application raises on purpose."""


class FindingsError(CepError):
    """Something a person wrote (query, settings, schema) has findings; all are reported at once."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(finding.render() for finding in self.findings))


class ConfigurationError(FindingsError):
    """The application cannot start as configured (exit code 78)."""


class DependencyError(CepError):
    """Something outside is missing: broker, registry, Java, artifact (exit code 69)."""


class AccessRefusedError(DependencyError):
    """Broker or registry refuse us: credentials or permissions (exit code 77 where a command can tell it from 69)."""


class CheckpointTakenError(CepError):
    """Another driver works on this checkpoint (exit code 75)."""


class SnapshotError(CepError):
    """Bytes of a state that this version cannot read, or that belong to another plan."""
