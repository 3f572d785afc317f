"""Hides events from single partial matches of a runs engine, for shedders of such pairs (hSPICE): the event stays what it is to all others, and to negations.

hide(engine, shares)                    # of pairs, by items, newest item and part of the window
engine.feed(...)
met, hidden = pairs_met(engine)         # since `hide`
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import Integers
from app.cep.runs import arrays as at
from app.cep.runs.engine import RunsEngine
from app.query.plan import Either, Every, Ordered, Pattern, Plan, Repeated, Take
from app.query.planning.alternatives import another_may_stand_in

MOST_ITEMS = 11
"""Items of a pattern: what an event can be is looked up by all of them at once."""


def pairs_by(plan: Plan, bins: int) -> tuple[int, int, int]:
    """Shape of what is known of pairs: items that an event can be as bits (its kind), the partial match's newest item (its state), parts of the window.

    Raises:
        ValueError: the query's partial matches cannot pass over a single event, or have no window of their own.
    """
    if plan.runs is None or plan.runs.window is not None or plan.within is None:
        raise ValueError("events can be hidden from partial matches only where these have windows of their own, with `within`")
    if any(one.endswith("contiguity") for ways in plan.runs.ways for one in (ways.first, ways.further)):
        raise ValueError("events cannot be hidden from partial matches where it matters which event comes next")
    if len(plan.items) > MOST_ITEMS:
        raise ValueError(f"events can be hidden from partial matches of at most {MOST_ITEMS} items")
    return 1 << len(plan.items), len(plan.items), bins


def only_loses(plan: Plan) -> bool:
    """Whether a query whose events are hidden from partial matches finds a part of what it would find, and nothing else: when partial matches stay as they are whatever they take, and nothing is told in their place or of their end."""
    runs = plan.runs
    if runs is None or plan.on_timeout == "emit" or runs.longest or runs.after != "no-skip" or another_may_stand_in(plan):
        return False
    ways = [runs.ways[item.bound_to] for item in plan.positive]
    free = all(strategy == "skip-till-any-match" for one in ways for strategy in (one.first, one.further))
    return free and not any(take.until is not None for take in _takes(plan.pattern))


def _takes(pattern: Pattern) -> Iterator[Take]:
    match pattern:
        case Take():
            yield pattern
        case Ordered(parts) | Every(parts) | Either(parts):
            for part in parts:
                yield from _takes(part)
        case Repeated(part):
            yield from _takes(part)


def hide(engine: RunsEngine, shares: NDArray[np.float64], seed: int = 0) -> None:
    """From now on this share of the pairs is hidden; counts begin anew.

    Args:
        engine: of a query that `pairs_by` has a shape for.
        shares: float64 (kinds, states, bins), 0 to 1; zeros count pairs and hide none.
        seed: chooses where some of the pairs are hidden.
    """
    hide_limits(engine, limits_of(shares), seed)


def limits_of(shares: NDArray[np.float64]) -> Integers:
    """int64 (kinds * states, bins): what the kernel asks, for who hides by the same shares again and again."""
    kinds, states, bins = shares.shape
    return np.round(shares * at.ALL_OF_THEM).astype(np.int64).reshape(kinds * states, bins)


def hide_limits(engine: RunsEngine, limits: Integers, seed: int = 0) -> None:
    """As `hide`, by limits that are made already."""
    engine.hiding = at.RunHiding(limits, np.zeros((len(limits), 2 * limits.shape[1]), np.int64), np.array([seed], np.int64))


def hide_nothing(engine: RunsEngine) -> None:
    """From now on all events meet all partial matches, and nothing is counted."""
    engine.hiding = at.NOTHING_HIDDEN


def pairs_met(engine: RunsEngine) -> tuple[Integers, Integers]:
    """int64 (kinds, states, bins) each: pairs of an event and a partial match that met since `hide`, hidden ones included, and hidden ones."""
    met, items = engine.hiding.met, len(engine.plan.items)
    both = met.reshape(len(met) // items, items, 2, met.shape[1] // 2)
    return both[:, :, 0], both[:, :, 1]
