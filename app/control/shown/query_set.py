"""What the driver tells of the query files beside what runs: when they were last read, what is wrong with them, what waits for a restart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.errors import Finding

Outcome = Literal["reloaded", "unchanged", "broken", "needs_topics", "needs_restart", "failed"]
"""``failed``: a dependency did not answer; it is tried again. ``needs_topics``, ``needs_restart``: what the files say is right, but topics do not exist, or only a restart can bring it."""
GOOD: frozenset[Outcome] = frozenset({"reloaded", "unchanged"})


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The last reading of the query files.

    Attributes:
        outcome: of the last reading; that of the start counts as one.
        read_at_ms: when.
        findings: of the last reading: why it changed nothing; warnings otherwise.
        disabled: names of queries that their files switch off.
        broken: names of queries that have errors, whether an earlier version of them runs or not.
    """

    outcome: Outcome = "reloaded"
    read_at_ms: int | None = None
    findings: tuple[Finding, ...] = ()
    disabled: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "outcome": self.outcome,
            "read_at_ms": self.read_at_ms,
            "findings": [plain_finding(finding) for finding in self.findings],
        }


def plain_finding(finding: Finding) -> dict[str, Any]:
    """A finding as JSON values.

    >>> plain_finding(Finding("no such query"))["message"]
    'no such query'
    """
    place = finding.location
    return {
        "severity": finding.severity.value,
        "path": None if place is None else place.path,
        "line": None if place is None else place.line,
        "column": None if place is None else place.column,
        "length": None if place is None else place.length,
        "source": None if place is None else place.source,
        "message": finding.message,
        "hint": finding.hint,
    }
