"""Models are judged at the overload that a running application has, and `auto` is judged anew when that is another one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

from app.control.overload import ENOUGH, Overload, around
from app.control.query_cost import QueryCost, QueryObservation, restored
from app.control.watchdog import WatchedQuery
from app.evaluation.examination import Profile
from app.evaluation.split import RATES
from app.owners.model_store import NONE, Learned, ModelStore
from app.pipeline.learning.rounds import Wish, _Lessons
from app.storage.posix import PosixStore
from tests.unit.control_plant import STREAM, Plant, a_watchdog, at_capacity
from tests.unit.test_evaluation_examination import recorded


def overloaded(kept: float, batches: int, **seen: float) -> QueryCost:
    """A query of a join, each of whose batches keeps such a share of a thousand events."""
    known = QueryCost()
    for _ in range(batches):
        known.learn(
            QueryObservation(1000, round(1000 * (1 - kept)), 1 + 100 * kept**2, seen.get("matches", 100.0), 0, 1 - kept),
            1000,
            None,
            warm=True,
        )
    return known


def test_of_a_join_that_keeps_half_of_its_events_four_times_as_much_came_as_was_done() -> None:
    assert overloaded(0.5, ENOUGH - 1).overload.rates is None
    light, heavy = overloaded(0.5, 2 * ENOUGH).overload.rates
    assert light < 4 < heavy
    assert heavy < 1.5 * light, "it is steady"


def test_partial_matches_that_are_left_say_it_as_well() -> None:
    known = QueryCost()
    for _ in range(ENOUGH):
        known.learn(QueryObservation(1000, 0, 40.0, 250.0, 1000, 0.7), 1000, None, warm=True)
    assert known.overload.rates == around(4.0)


def test_the_watchdog_says_how_much_more_came_than_was_done_and_still_does_after_a_restart() -> None:
    watched = WatchedQuery("q", "random", 1_000, streams=(STREAM,)), WatchedQuery("calm", "random", 600_000, streams=(STREAM,))
    plant = at_capacity(Plant(lambda _: 0.0, {"q": 0.06, "calm": 0.0001}, fixed_ms=100.0), 2.0)
    watchdog = a_watchdog(*watched)
    plant.run(watchdog, batches=ENOUGH + 100)
    done = 1 - np.array([one.get("q", 0.0) for one in plant.ratios[-ENOUGH:]])
    assert list(watchdog.overloads) == ["q"], "the other one shed nothing"
    light, heavy = watchdog.overloads["q"]
    assert light <= 1 / done.mean() <= heavy
    assert heavy < 1.5 * light, "it is steady"
    again = a_watchdog(*watched)
    again.restore(json.loads(json.dumps(watchdog.snapshot())))
    assert again.overloads == watchdog.overloads


def test_batches_that_shed_nothing_and_those_of_a_cold_process_say_nothing() -> None:
    known = overloaded(0.5, 2 * ENOUGH)
    before = known.overload.rates
    for warm, asked in ((True, 0.0), (False, 0.5)):
        for _ in range(500):
            known.learn(QueryObservation(1000, round(1000 * asked), 100.0, 100.0, 0, asked), 1000, None, warm=warm)
    assert known.overload.rates == before


def test_what_was_seen_survives_a_restart_and_an_earlier_version_knew_nothing() -> None:
    known = overloaded(0.5, 2 * ENOUGH)
    plain = json.loads(json.dumps(asdict(known)))
    assert restored(plain) == known
    del plain["overload"]
    assert restored(plain) == replace(known, overload=Overload())


@pytest.fixture
def world(tmp_path):
    """An `auto` query whose newest events a round reads, and a version that was judged at the usual rates."""
    query = recorded(tmp_path / "recorded", "auto")
    store = ModelStore(PosixStore(tmp_path / "checkpoint"))
    settings = SimpleNamespace(learning=SimpleNamespace(again=10**15, events=len(query.batch)))

    def reason(rates: tuple[float, ...], *, overloads=None, shedder: str = "auto") -> str | None:
        """Why a round would learn."""
        plan = replace(query.plan, shedding=replace(query.plan.shedding, shedder=shedder))
        store.add(
            Learned(
                plan.name,
                NONE,
                plan.fingerprint,
                "gspice",
                10**13,
                len(query.batch),
                0,
                1,
                400,
                0.1,
                0.5,
                None,
                "there was no model",
                taken=False,
                profile=asdict(Profile.of(plan, query.batch)),
                rates=rates,
            ),
            b"model",
        )
        lessons = _Lessons(settings, store, Wish(overloads=overloads or {}), lambda text: None)
        lessons._read[(plan.streams, 20_000)] = query.batch
        return lessons._reason(plan, None, lambda: pytest.fail("nothing is to be judged"))

    return reason


def test_auto_is_judged_anew_when_another_overload_came(world) -> None:
    assert world(RATES) is None
    assert world(RATES, overloads={"rises": (1.4, 2.0)}) is None, "nearly the same"
    why = world(RATES, overloads={"rises": (3.0, 4.0)})
    assert why == "its overload is another one: 130 and 180 % when it was judged last, 300 and 400 % now"
    assert world((3.0, 4.0), overloads={"rises": (3.0, 4.0)}) is None
    assert world(()) is None, "a version from before rates were kept"


def test_who_sheds_is_not_asked_where_the_query_names_it(world) -> None:
    assert world(RATES, overloads={"rises": (3.0, 4.0)}, shedder="gspice") is None


def test_without_a_word_from_the_application_the_last_rates_count(world) -> None:
    assert world((3.0, 4.0)) is None
