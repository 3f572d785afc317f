"""What a reconciliation comes to, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.pipeline.reconcile.identities import Difference, Kind
from app.pipeline.reconcile.scope import Interval


@dataclass(frozen=True, slots=True)
class Row:
    """Of one kind.

    Attributes:
        kind: a query's composite events, or its timeouts.
        version: of the query.
        scope: match times that were compared.
        cut: whether it would have gone further: the application has not come so far yet.
        difference: what was found.
    """

    kind: Kind
    version: int
    scope: Interval
    cut: bool
    difference: Difference


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a reconciliation.

    Attributes:
        shed: what was asked for.
        rows: of all that was compared.
        left_out: queries of which nobody can say what they would have found, and why.
        records: offsets that were to be read.
        gone: by kind, false composite events that could not be taken back: their records are gone.
        time_ms: when it was compared.
        come: event time up to which the application has decided everything of all that it compares, ms.
    """

    shed: Interval
    rows: tuple[Row, ...]
    left_out: Mapping[str, str]
    records: int
    gone: Mapping[Kind, int]
    time_ms: int
    come: int
