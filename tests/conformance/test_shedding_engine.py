"""What shedding does to composite events, with every registered method in front of a real engine."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from app.asc.selection import Selection
from app.evaluation.contest import Contest, Terms
from app.evaluation.pairs import PairOperator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.evaluation.windows import EventWindows
from app.events.batch import Column, EventBatch, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan
from shedding.gate import withdraw
from shedding.registry import METHODS, method

STREAM = StreamSchema("s", tuple(EventType(name, (Attribute("v", Kind.INTEGER),)) for name in "ABC"))
EVENTS = 1500
LEVELS = ("events", "events per window", "events per partial match", "partial matches")
RATIOS = (0.2, 0.5, 0.9)


@pytest.fixture(params=sorted(name for name, entry in METHODS.items() if entry.level in LEVELS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stream(seed: int) -> EventBatch:
    chance = np.random.default_rng(seed)
    types = ["ABC"[k] for k in chance.choice(3, EVENTS, p=[0.5, 0.3, 0.2])]
    return events_of_types(
        types, np.cumsum(chance.integers(100, 2000, EVENTS)).tolist(), {"v": Column(Kind.INTEGER, chance.integers(1, 11, EVENTS))}
    )


@cache
def contest(event: str, strategy: str, window: str = "window: {size: 12 s, slide: 4 s}") -> Contest:
    text = f'name: q\nfrom: s\nevent: {event}\nwhere: "a.v <= 5 AND c.v <= 5"\nstrategy: {strategy}\n{window}\nevaluator: runs\n'
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, compiled.errors
    return Contest(compiled.catalog.plans[0], stream(1), stream(2), Terms(seed=3))


WITHOUT_NEGATION, WITH_NEGATION = "SEQ(A a, B b, C c)", "SEQ(A a, !(B b), C c)"
ANY, NEXT = "skip-till-any-match", "skip-till-next-match"


def found(one: Contest, name: str, ratio: float) -> set[int]:
    """Composite events that are found at a ratio."""
    made = method(name)
    try:
        model = one.train(made)
    except ValueError as cause:
        pytest.skip(f"the harness cannot teach it yet: {cause}")
    if METHODS[name].of_matches:
        operator = MatchOperator if made.level == "partial matches" else PairOperator
        course = operator(one.plan, one.judging).run(MatchLoad(1.0, 0.0, 1.0, most=50 * (1 - ratio)), model if ratio else None)
        return set(course.outcome.identity.tolist())
    events = one.features.judged(one.judging)
    if made.level == "events":
        return set(one._answer(model.gate(ratio).keep(events)).identity.tolist())
    windows = EventWindows.of(one.plan.runs.window, one.judging)
    return set(one._windowed.run(model.gate(ratio).keep(windows.judged(events))).identity.tolist())


def truth(one: Contest, name: str) -> set[int]:
    return set((one._windowed.run() if METHODS[name].level == "events per window" else one.truth).identity.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [ANY, NEXT])
def test_without_negation_nothing_is_invented(name: str, strategy: str) -> None:
    """Under skip-till-any-match; shedders of partial matches may not invent anything under skip-till-next-match either."""
    if METHODS[name].of_matches and (strategy == ANY or METHODS[name].level == "partial matches"):
        one = contest(WITHOUT_NEGATION, strategy, "within: 12 s")
    elif strategy == ANY:
        one = contest(WITHOUT_NEGATION, ANY)
    else:
        pytest.skip("an event less lets a partial match take another")
    whole = truth(one, name)
    assert len(whole) > 100
    assert found(one, name, 0.0) == whole
    for ratio in RATIOS:
        assert found(one, name, ratio) <= whole
    assert name == "none" or len(found(one, name, 0.9)) < len(whole)


def protected_items(plan: Plan, selection: Selection) -> np.ndarray:
    guard = np.zeros(selection.layout.words, np.uint64)
    for item in plan.items:
        if item.negated:
            word, bit = divmod(selection.bit(0, item.index), 64)
            guard[word] |= np.uint64(1 << bit)
    return guard


def test_events_that_could_prevent_a_match_stay_where_false_positives_are_not_allowed(name: str) -> None:
    if METHODS[name].level != "events":
        pytest.skip("gates of pairs and partial matches are protected where they are asked")
    one = contest(WITH_NEGATION, ANY)
    selection = Selection(one._plain._catalog, None)
    selected = selection.select(one.judging)
    guard, own = protected_items(one.plan, selection), selected.own_words(0)
    whole = truth(one, name)
    for ratio in (*RATIOS, 1.0):
        bitmaps = selected.bitmaps.copy()
        kept = one.train(method(name)).gate(ratio).keep(one.features.judged(one.judging))[selected.relevant]
        withdraw(bitmaps, own, kept, protected=guard)
        stays = np.ones(len(one.judging), np.bool_)
        stays[selected.relevant] = (bitmaps & own).any(axis=1)
        negated = (selected.bitmaps & guard).any(axis=1)
        assert stays[selected.relevant][negated].all()
        assert set(one._answer(stays).identity.tolist()) <= whole


def test_without_protection_a_negation_makes_shedding_invent_matches() -> None:
    """So the test above can fail."""
    one = contest(WITH_NEGATION, ANY)
    assert found(one, "random", 0.5) - truth(one, "random")
