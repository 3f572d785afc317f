"""Models that queries shed by, as far as people want to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """A query's model.

    Attributes:
        method: name of the shedder that it is for.
        file: where it was read.
        digest: SHA-256 of the content.
        written_at_ms: when the file was written; None when it is gone, or another one by now.
        observed: events, pairs or steps that it was learned from.
        first_ms, last_ms: event times of the first and the last of these; 0 without time.
    """

    method: str
    file: str
    digest: str
    written_at_ms: int | None = None
    observed: int = 0
    first_ms: int = 0
    last_ms: int = 0
