"""The one line that a finished batch has in the log, at debug: its number, what went in, where it went, by query what came of it, and who holds which bucket.

At ``info`` nothing of it is put together; ``POST /log-level`` turns it on while the application runs: ``{"logger": "app.control.batch_line", "level": "debug"}``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from app.control.messages.directives import Directive
from app.control.messages.reports import ENDS, QueryTally
from app.control.messages.totals import BatchTotals
from app.observe.logs import get_logger
from app.observe.progress import Progress

Held = Mapping[int, str]
"""By bucket the owner that holds it, as ``host:port``."""

log = get_logger(__name__)


def log_batch(progress: Progress, totals: BatchTotals, directive: Directive | None, held: Callable[[], Held]) -> None:
    """Writes the line.

    Args:
        progress: of Spark.
        totals: of tasks and owners.
        directive: of the batch, where it is still known.
        held: asked only where the line is written.
    """
    if not logging.getLogger(__name__).isEnabledFor(logging.DEBUG):
        return
    consumed = {end: totals.counts[end] for end in ENDS if totals.counts.get(end)}
    log.debug(
        "batch finished",
        batch_id=progress.batch,
        run_id=progress.run_id,
        attempts=totals.attempts,
        duration_ms=progress.duration_ms,
        phases_ms={phase: round(spent / 1e6, 1) for phase, spent in totals.phases_ns.items()},
        spark_phases_ms=dict(progress.phases_ms),
        consumed=totals.counts.get("consumed", 0),
        bytes=sum(source.bytes for source in totals.sources.values()),
        ended=consumed,
        rejected=dict(totals.rejected),
        left_behind=progress.remaining,
        records_sent=totals.sent,
        queries={
            name: told
            for name, tally in sorted(totals.queries.items())
            if (told := _of_query(tally, 0.0 if directive is None else directive.drop_ratio(name)))
        },
        buckets=_by_owner(held()),
    )


def _of_query(tally: QueryTally, ratio: float) -> dict[str, Any]:
    """What there is to say of a query; nothing of one that nothing came to."""
    counts = {
        "candidates": tally.candidates,
        "shed": tally.shed + tally.ended_matches + tally.tuples_shed,
        "matches": tally.matches,
        "timeouts": tally.timeouts,
        "partial_matches": tally.partial_matches,
        "drop_ratio": ratio,
        "cost_ms": round(tally.cost_ns / 1e6, 3),
    }
    return {name: count for name, count in counts.items() if count}


def _by_owner(held: Held) -> dict[str, list[int]]:
    """The buckets of each owner.

    >>> _by_owner({1: "a:1", 0: "a:1", 2: "b:1"})
    {'a:1': [0, 1], 'b:1': [2]}
    """
    found: dict[str, list[int]] = {}
    for bucket, owner in sorted(held.items()):
        found.setdefault(owner, []).append(bucket)
    return found
