"""How much of a query's state must go: in a plant whose state grows with every batch and dies with its window."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from app.control.law.state_limits import state_shares
from app.control.messages.directives import Directive, QueryShedding
from app.control.messages.reports import QueryTally
from app.control.messages.totals import BatchTotals
from app.query.plan import Plan, Shedding

LIMIT = 1_000_000


def plan(**shedding: object) -> Plan:
    return Plan("q", 1, "", (), 1.0, ("s",), (), (), (), None, (), (), shedding=Shedding(**shedding))  # type: ignore[arg-type]


PLANS = {"q": plan(state_bytes=LIMIT)}


def totals(batch: int, held: float | None, ended: float = 0.0) -> BatchTotals:
    """With a partial match per 100 bytes."""
    if held is None:
        return BatchTotals(batch)
    tally = QueryTally("q", state_bytes=round(held), partial_matches=round(held / 100), ended_matches=round(ended / 100))
    return BatchTotals(batch, queries={"q": tally})


def ends(added: list[float], window: int, plans: dict[str, Plan] = PLANS) -> tuple[list[float], list[float]]:
    """By batch: bytes at its end, and the share that was ended before it. What a batch adds dies after so many batches, and is ended in equal parts."""
    parts: deque[float] = deque(maxlen=window)
    held: list[float | None] = [None, None]
    shares: list[float] = []
    for batch, more in enumerate(added):
        gone = (held[-2] or 0.0) * shares[-1] if shares else 0.0
        before = Directive(batch - 1, state_shares={"q": shares[-1]}) if shares else None
        share = state_shares(plans, before, totals(batch - 1, held[-1], gone), totals(batch - 2, held[-2])).get("q", 0.0)
        parts = deque([part * (1 - share) for part in parts], maxlen=window)
        parts.append(more)
        shares.append(share)
        held.append(sum(parts))
    return [one for one in held[2:] if one is not None], shares


def test_a_state_that_fits_is_left_alone() -> None:
    held, shares = ends([90_000.0] * 40, window=10)
    assert max(held) == 900_000
    assert not any(shares)


@pytest.mark.parametrize("window", [20, 100])
def test_a_state_that_would_grow_beyond_its_limit_is_kept_below_it_when_batches_are_over(window: int) -> None:
    held, shares = ends([90_000.0] * 120, window)
    assert max(held) <= 1.01 * LIMIT, "what leaves its window in between is not foreseen"
    assert min(held[20:]) > 0.85 * LIMIT, "no more is ended than must be"
    assert 0 < max(shares) < 0.2


def test_uneven_batches_break_the_limit_by_no_more_than_they_differ() -> None:
    added = np.random.default_rng(1).uniform(60_000, 120_000, 200).tolist()
    held, _ = ends(added, window=50)
    assert max(held) <= LIMIT + 60_000


def test_a_batch_that_adds_more_than_the_limit_leaves_half_of_it() -> None:
    held, shares = ends([100_000.0] * 5 + [3_000_000.0] + [100_000.0] * 5, window=50)
    assert max(held) == held[5] == 3_500_000
    assert held[6] <= 0.5 * LIMIT + 100_000
    assert shares[6] == pytest.approx(1 - 0.5 * LIMIT / held[5])
    assert max(held[7:]) <= LIMIT


def test_what_was_to_be_ended_and_was_not_is_no_growth() -> None:
    """Buckets that got no events end nothing."""
    asked = Directive(5, state_shares={"q": 0.3})
    shares = state_shares(PLANS, asked, totals(5, 1_200_000, ended=0), totals(4, 1_200_000))
    assert shares == {"q": pytest.approx(1 - LIMIT / 1_200_000, abs=1e-6)}


def test_what_a_batch_ends_of_its_own_making_is_no_growth_of_what_it_began_with() -> None:
    """In an overload most of what a shedder of partial matches ends was made in the same batch."""
    shed = Directive(5, shedding={"q": QueryShedding(0.6, share=0.1, place="matching")})
    held, made = 600_000, 900_000
    assert not state_shares(PLANS, shed, totals(5, held, ended=made), totals(4, held))


def test_without_a_limit_nothing_is_ended() -> None:
    assert not any(ends([90_000.0] * 40, 30, {"q": plan()})[1])
