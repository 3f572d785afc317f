"""What keeps a reconciliation from being made, in words for an operator."""

from __future__ import annotations

from datetime import UTC, datetime

from app.errors import CepError


class ReconcileError(CepError):
    """It cannot be said what the application would have found (exit code 1)."""


def moment(time_ms: int) -> str:
    """A time as people read it.

    >>> moment(1_780_000_000_250)
    '2026-05-28T20:26:40.250Z'
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
