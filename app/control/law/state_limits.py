"""Memory as a second resource: what share of a query's partial matches must go so that its state stays below ``limits.state_bytes``.

Decided by the driver for all buckets together, from what owners reported of the batches before, and written into the directive: a batch that is done again ends the same partial matches.
What the next batch adds is reckoned with as what the last one added, so the state is below its limit when the batch is over, not only before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.control.messages.directives import Directive
from app.control.messages.totals import BatchTotals
from app.query.plan import Plan

LEAST_ALLOWED = 0.5
"""Of the limit: so much stays, however fast a batch lets the state grow; a batch that adds more than that breaks the limit until the next one."""


def state_shares(plans: Mapping[str, Plan], directive: Directive | None, totals: BatchTotals, earlier: BatchTotals) -> dict[str, float]:
    """By query whose state would be too large after the next batch, the share of its partial matches to end before it.

    Args:
        plans: of the running queries, by name.
        directive: of the last batch, where it is still known.
        totals: of the last batch.
        earlier: of the batch before it.
    """
    shares = {}
    for query, plan in plans.items():
        limit = plan.shedding.state_bytes
        if limit is not None and query in totals.queries:
            held = totals.queries[query].state_bytes
            share = share_to_end(held, held - _kept(query, directive, totals, earlier), limit)
            if share:
                shares[query] = share
    return shares


def share_to_end(held: int, growth: float, limit: int) -> float:
    """The share of a state that must go.

    Args:
        held: bytes that it has.
        growth: bytes that the next batch is expected to add.
        limit: bytes that it may have.

    >>> share_to_end(60, 20, 100), share_to_end(100, 20, 100), share_to_end(200, 500, 100), share_to_end(0, 0, 100)
    (0.0, 0.2, 0.75, 0.0)
    """
    allowed = max(LEAST_ALLOWED * limit, limit - max(0.0, growth))
    return 0.0 if held <= allowed else round(1 - allowed / held, 6)


def _kept(query: str, directive: Directive | None, totals: BatchTotals, earlier: BatchTotals) -> float:
    """What the last batch began with: what the one before it left, without what was ended before it. That is at most what was asked for, and at most what was ended: buckets without events end nothing, and others also what the batch itself has made. Where nobody knows the one before it, what there is."""
    left = earlier.queries.get(query)
    if left is None:
        return totals.queries[query].state_bytes
    ended = totals.queries[query].ended_matches / max(1, left.partial_matches)
    return left.state_bytes * (1 - min(1.0 if directive is None else directive.share_ended(query), ended))
