"""What partial matches answer, and the sums of what is known of comparisons, worked out again event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product

import numpy as np
import pytest

from app.bucket.recording import rows_between
from app.cep.door import ANY_ITEM, Question, Questions, RunsEngine, bound_events, live_runs, told_of
from app.cep.engine import Watermarks
from app.events.batch import ABSENT, NULL, PRESENT, Column, EventBatch, events_of_types
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.features.events import candidate_items
from app.features.slack import Comparisons
from app.query.compile import compile_texts
from app.query.plan import Plan

ATTRIBUTES = (Attribute("k", Kind.INTEGER), Attribute("x", Kind.INTEGER), Attribute("y", Kind.FLOAT), Attribute("s", Kind.STRING))
STREAM = StreamSchema("s", tuple(EventType(name, ATTRIBUTES) for name in "ABC"))
PLAIN: dict[str, Callable[[Sequence[float]], float]] = {
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
    "min": lambda x: float(np.min(x)),
    "max": lambda x: float(np.max(x)),
    "sum": sum,
    "avg": lambda x: sum(x) / len(x),
    "count": len,
}
PATTERNS = {
    "closure": ("SEQ(A a, B+ b, C c)", "min(b.y) + a.x < c.y + 3 AND abs(a.x - sum(b.x)) - c.x > 2 * 4 AND count(b) <= 2 * c.x - a.y"),
    "alternatives": ("SEQ(A a, ANY(B, C) d, B b)", "a.x < d.y + b.x"),
    "of two kinds": ("SEQ(A a, B+ b, C+ c, A z)", "avg(c.y) - max(b.x) < z.y AND distance(a.x, a.y, z.x, z.y) < first(b.x) + 7"),
}  # fmt: skip


def plan_of(pattern: str, where: str) -> Plan:
    text = f'name: q\nfrom: s\nevent: {pattern}\nwhere: "[k] AND {where}"\nwithin: 40 s\nevaluator: runs\n'
    compiled = compile_texts([("q.yaml", text)], {"s": STREAM})
    assert not compiled.errors, compiled.errors
    return compiled.catalog.plans[0]


def batch_of(seed: int, count: int) -> EventBatch:
    """Some values are null or absent."""
    chance = np.random.default_rng(seed)
    state = {name: chance.choice([PRESENT, PRESENT, PRESENT, NULL, ABSENT], count).astype(np.uint8) for name in "xy"}
    columns = {
        "k": Column(Kind.INTEGER, chance.integers(0, 3, count)),
        "x": Column(Kind.INTEGER, chance.integers(-9, 9, count), state=state["x"]),
        "y": Column(Kind.FLOAT, chance.normal(0, 9, count), state=state["y"]),
    }
    return events_of_types(chance.choice([*"ABC"], count).tolist(), [1000 * k for k in range(count)], columns)


def number(batch: EventBatch, row: int, attribute: str) -> float:
    column = batch.columns.get(attribute)
    known = column is not None and (column.state is None or column.state[row] == PRESENT)
    return float(column.values[row]) if known and column is not None else np.nan


@pytest.fixture(params=product(PATTERNS, range(3)), ids=str)
def fed(request: pytest.FixtureRequest) -> tuple[EventBatch, RunsEngine, list[list[tuple[int, int]]]]:
    """An engine that has seen a stream, and its partial matches as (item, row)."""
    pattern, seed = request.param
    plan, batch = plan_of(*PATTERNS[pattern]), batch_of(seed, 60)
    engine = RunsEngine(plan)
    engine.feed(rows_between(batch, 0, len(batch)), candidate_items(plan, batch), Watermarks(int(batch.time[-1])))
    bound = bound_events(engine, live_runs(engine))
    pairs = list(zip(bound.items.tolist(), bound.places[:, 1].tolist(), strict=True))
    chains = [pairs[start:stop] for start, stop in pairwise(bound.starts.tolist())]
    assert len(chains) > 20
    return batch, engine, chains


def test_partial_matches_answer_what_their_events_say(fed: tuple[EventBatch, RunsEngine, list[list[tuple[int, int]]]]) -> None:
    batch, engine, chains = fed
    plan = engine.plan
    bindings = sorted({item.bound_to for item in plan.items})
    asked = [Question(f, b, None if f == "count" else a) for f, b, a in product(PLAIN, bindings, ("x", "y", "s", "unknown"))]  # type: ignore[arg-type]
    asked += [Question(end, ANY_ITEM, name) for end, name in product(("first", "last"), "xy")]  # type: ignore[arg-type]
    told = told_of(engine, live_runs(engine), Questions.of(plan, asked))
    answered = 0
    for one, answers in zip(asked, told.tolist(), strict=True):
        for chain, answer in zip(chains, answers, strict=True):
            rows = [row for item, row in chain if one.binding in (ANY_ITEM, plan.items[item].bound_to)]
            values = [number(batch, row, one.attribute or "") for row in rows]
            expected = PLAIN[one.function](values) if rows else np.nan
            assert answer == pytest.approx(expected, nan_ok=True), one
            answered += expected == expected  # noqa: PLR0124 - is no NaN
    assert answered > 1000


def test_no_partial_matches_answer_nothing() -> None:
    plan = plan_of(*PATTERNS["closure"])
    engine, asked = RunsEngine(plan), [Question("sum", 1, "x"), Question("first", ANY_ITEM, "y")]
    assert told_of(engine, live_runs(engine), Questions.of(plan, asked)).shape == (2, 0)
    comparisons = Comparisons.of(plan, "xy")
    assert comparisons.slack(np.empty((len(comparisons.questions), 0))).shape == (3, 0)


def test_another_querys_questions_are_refused() -> None:
    engine, other = RunsEngine(plan_of(*PATTERNS["closure"])), plan_of(*PATTERNS["of two kinds"])
    with pytest.raises(ValueError, match="another query"):
        told_of(engine, live_runs(engine), Questions.of(other, [Question("sum", 1, "x")]))


def test_what_needs_other_attributes_is_not_known() -> None:
    """`Features.attributes` has no times, and none that only aggregates read: saved models have learned without them."""
    comparisons = Comparisons.of(plan_of(*PATTERNS["closure"]), "x")
    assert {one.attribute for one in comparisons.questions} == {"x", None}
    told = {(one.function, one.attribute, one.binding): 2.0 + k for k, one in enumerate(comparisons.questions)}
    slack = comparisons.slack(np.array([[value] for value in told.values()])).ravel()
    first, last = told["first", "x", 0], told["first", "x", 2]
    assert slack.tolist() == [3 - first, 8 - abs(first - told["sum", "x", 1]) + last, 2 * last - told["count", None, 1]]


@pytest.mark.parametrize("pattern", ["closure", "of two kinds"])
def test_slack_is_right_minus_left_of_what_is_known(pattern: str) -> None:
    comparisons = Comparisons.of(plan_of(*PATTERNS[pattern]), "xy")
    chance = np.random.default_rng(1)
    answers = chance.normal(0, 5, (len(comparisons.questions), 200))
    answers[chance.random(answers.shape) < 0.4] = np.nan

    def known(*terms: float) -> float:
        return float(np.nansum(terms)) if not np.isnan(terms).all() else np.nan

    for answer, slack in zip(answers.T, comparisons.slack(answers).T, strict=True):
        told = {(one.function, one.attribute, one.binding): float(value) for one, value in zip(comparisons.questions, answer, strict=True)}
        if pattern == "closure":
            first, least, last = told["first", "x", 0], told["min", "y", 1], told["first", "y", 2]
            # 8 is known before anything is bound, and alone it says nothing
            more = known(-abs(first - told["sum", "x", 1]), told["first", "x", 2]) + 8
            expected = [
                known(last, -least, -first) + 3,
                more,
                known(2 * told["first", "x", 2], -told["first", "y", 0], -told["count", None, 1]),
            ]
        else:
            apart = np.hypot(told["first", "x", 0] - told["first", "x", 3], told["first", "y", 0] - told["first", "y", 3])
            expected = [known(told["first", "y", 3], -told["avg", "y", 2], told["max", "x", 1]), known(told["first", "x", 1], -apart) + 7]
        assert slack.tolist() == pytest.approx(expected, nan_ok=True)
