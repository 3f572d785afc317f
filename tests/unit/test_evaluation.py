"""The harness that judges shedders: its queue, its windows, what it observes, and that it can tell good from bad."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.asc.selection import Selection
from app.bootstrap.places import PROJECT
from app.bucket.matching import GroupMatching
from app.bucket.recording import rows_between
from app.cep.door import RunsEngine
from app.evaluation.contest import Contest, Terms
from app.evaluation.observing import event_observations
from app.evaluation.operator import Operator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.evaluation.quality import Quality
from app.evaluation.virtual_time import Load, finished, overload
from app.evaluation.windows import EventWindows, OpenedOperator, WindowedOperator
from app.events.batch import Column, Dictionary, EventBatch, concatenate, events_of_types, in_total_order
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.features.events import Features, candidate_items
from app.local.generators import generate
from app.query.compile import compile_texts, read_queries
from app.query.plan import ExplicitWindow, Plan
from shedding.identity import identities
from shedding.partial_matches.pspice import chains_of
from shedding.registry import method

STREAM = StreamSchema("s", tuple(EventType(name, (Attribute("v", Kind.INTEGER), Attribute("symbol", Kind.STRING))) for name in "ABC"))
LOCAL = "a.v <= 5 AND b.v <= 5 AND c.v <= 5"
NEXT = "strategy: skip-till-next-match\n"


def plan_of(more: str, event: str = "SEQ(A a, B b, C c)", where: str = LOCAL) -> Plan:
    compiled = compile_texts([("q.yaml", f'name: q\nfrom: s\nevent: {event}\nwhere: "{where}"\n{more}')], {"s": STREAM})
    assert not compiled.errors, compiled.errors
    return compiled.catalog.plans[0]


def stream(events: int, seed: int = 1) -> EventBatch:
    rng = np.random.default_rng(seed)
    types = rng.choice(3, events, p=[0.6, 0.25, 0.15])
    times = np.cumsum(rng.integers(0, 2000, events)).tolist()
    symbols = Column(Kind.STRING, rng.integers(0, 3, events).astype(np.int32), None, Dictionary.of([b"X", b"Y", b"Z"]))
    return events_of_types(["ABC"[k] for k in types], times, {"v": Column(Kind.INTEGER, rng.integers(1, 11, events)), "symbol": symbols})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=30), st.integers(0, 40))
def test_a_queue_is_worked_off_one_after_the_other(events: list[tuple[int, int]], free_at: int) -> None:
    arrival, work = np.cumsum([gap for gap, _ in events]).astype(float), np.array([cost for _, cost in events], float)
    naive, done = [], float(free_at)
    for at, cost in zip(arrival, work, strict=True):
        done = max(done, at) + cost
        naive.append(done)
    assert finished(arrival, work, float(free_at)) == pytest.approx(naive)


def test_nothing_is_shed_without_overload_and_the_bound_holds_with_it() -> None:
    asked = []

    def keep(ratio: float, start: int, stop: int) -> np.ndarray:
        asked.append(ratio)
        return (np.random.default_rng(start).random(stop - start) >= ratio).astype(float)

    calm = overload(20_000, Load(990, 1 / 1000), keep)
    assert not asked
    assert calm.kept.all()
    for factor in (1.2, 2.0, 5.0):
        course = overload(40_000, Load(factor * 1000, 1 / 1000), keep)
        assert course.latency_s.max() <= 1.0
        assert np.median(course.latency_s[20_000:]) == pytest.approx(0.8, abs=0.03)
        assert 1 - course.kept[20_000:].mean() == pytest.approx(1 - 1 / factor, abs=0.02)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=25), st.integers(1, 40), st.integers(1, 15), st.sampled_from(["ms", "events"]))
def test_every_event_is_in_every_window_that_covers_it(gaps: list[int], size: int, slide: int, unit: str) -> None:
    batch = events_of_types(["A"] * len(gaps), np.cumsum(gaps).tolist())
    windows = EventWindows.of(ExplicitWindow(size, unit, slide), batch)
    naive = []
    for row in range(len(batch)):
        place = int(batch.time[row]) if unit == "ms" else row
        naive += [
            (row, number)
            for number in range(-size if unit == "ms" else 0, place // slide + 1)
            if number * slide <= place < number * slide + size
        ]
    pairs = list(zip(windows.event.tolist(), windows.window.tolist(), strict=True))
    assert pairs == sorted(naive)
    for number in set(windows.window.tolist()):
        own = windows.window == number
        assert windows.position[own].tolist() == list(range(own.sum()))
        assert set(windows.size[own].tolist()) == {own.sum() if unit == "ms" else size}


@pytest.mark.parametrize("window", ["{size: 250 s, slide: 10 s}", "{size: 60 events, slide: 7 events}", "{size: 40 s, slide: 40 s}"])
def test_pairs_find_what_the_windowed_query_finds(window: str) -> None:
    plan, batch = plan_of(f"{NEXT}window: {window}\n"), stream(600)
    whole = Operator(plan, batch).run()
    windows = EventWindows.of(plan.runs.window, batch)
    pairs = WindowedOperator(plan, batch, windows).run()
    assert len(whole) > 20

    def found(outcome):
        return sorted(zip(outcome.window.tolist(), outcome.rows.reshape(-1, 3).tolist(), strict=True))

    assert found(pairs) == found(whole)
    assert sorted(pairs.identity.tolist()) == sorted(whole.identity.tolist()), "shedders of partial matches are held against the same truth"
    assert windows.weights(whole, 2.0).sum() == 6 * len(whole)
    kept = np.random.default_rng(0).random(len(batch)) < 0.7
    assert found(WindowedOperator(plan, batch, windows).run(kept[windows.event])) == found(Operator(plan, batch).run(kept))


@pytest.mark.parametrize("window", ["{size: 250 s, slide: 10 s}", "{size: 60 events, slide: 7 events}"])
@pytest.mark.parametrize("event", ["SEQ(A a, B b, !(C n))", "SEQ(!(C n), A a, B b)", "SEQ(A a, !(C n), B b)", "SEQ(A a, B+ b, C c)"])
def test_pairs_find_the_same_whatever_the_pattern(event: str, window: str) -> None:
    plan = plan_of(f"{NEXT}window: {window}\n", event, "a.v <= 5")
    for seed in range(3):
        batch = stream(400, seed)
        whole, windows = Operator(plan, batch).run(), EventWindows.of(plan.runs.window, batch)
        assert len(whole) > 20
        assert sorted(WindowedOperator(plan, batch, windows).run().identity.tolist()) == sorted(whole.identity.tolist())


@pytest.mark.parametrize("within", ["40 events", "45 s"])
def test_a_negated_end_is_decided_in_windows_that_events_open(within: str) -> None:
    plan, batch = plan_of(f"{NEXT}within: {within}\n", "SEQ(A a, B b, !(C n))", "a.v <= 5 AND n.v <= 1"), stream(500)
    whole = Operator(plan, batch).run()
    assert len(whole) > 20
    assert sorted(OpenedOperator(plan, batch).run().rows.tolist()) == sorted(whole.rows.tolist())


@pytest.mark.parametrize("within", ["40 events", "45 s"])
def test_windows_that_events_open_find_what_the_query_finds(within: str) -> None:
    plan, batch = plan_of(f"{NEXT}within: {within}\n", "SEQ(A a, B b, ANY(A, C) c)", "a.v <= 5 AND b.v <= 5"), stream(500)
    pairs = OpenedOperator(plan, batch)
    kept = np.random.default_rng(0).random(len(batch)) < 0.7

    def found(outcome):
        return sorted(outcome.rows.reshape(-1, 3).tolist())

    whole = pairs.run()
    assert len(whole) > 20
    assert found(whole) == found(Operator(plan, batch).run())
    assert whole.window.tolist() == whole.rows[whole.starts[:-1]].tolist()
    assert found(pairs.run(kept[pairs.windows.event])) == found(Operator(plan, batch).run(kept))
    naive = []
    openers = [row for row in range(len(batch)) if plan_takes_first(batch, row)]
    for row in range(len(batch)):
        for opener in openers:
            reach = row - opener if within.endswith("events") else (batch.time[row] - batch.time[opener]) / 1000
            if opener <= row and reach < float(within.split(maxsplit=1)[0]):
                naive.append((row, opener, row - opener))
    windows = pairs.windows
    assert list(zip(windows.event.tolist(), windows.window.tolist(), windows.position.tolist(), strict=True)) == naive
    assert all((windows.window == opener).sum() == windows.size[windows.window == opener][0] for opener in openers)


def plan_takes_first(batch: EventBatch, row: int) -> bool:
    return batch.type.dictionary.entries()[batch.type.values[row]] == b"A" and batch.columns["v"].values[row] <= 5


@pytest.mark.parametrize("who", ["plain", "windowed", "opened"])
def test_work_is_the_engines_on_what_is_left(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """A processor whose clock moves by the candidates that an engine is fed, and by a hundred for everything else that is asked of it."""
    clock = 0.0
    monkeypatch.setattr(Selection, "select", lambda *asked, own=Selection.select: [tick(100), own(*asked)][1])

    def tick(by: float) -> None:
        nonlocal clock
        clock += by

    def fed(self, batch, selected, watermarks, *more, own=GroupMatching.feed_selected):  # type: ignore[no-untyped-def]
        tick(len(selected.relevant))
        return own(self, batch, selected, watermarks, *more)

    def pairs_fed(self, part, items, watermarks, *more, own=RunsEngine.feed):  # type: ignore[no-untyped-def]
        tick(len(part))
        return own(self, part, items, watermarks, *more)

    plan, batch = plan_of("window: {size: 250 s, slide: 10 s}\n" if who == "windowed" else f"{NEXT}within: 250 s\n"), stream(600)
    windows = EventWindows.of(plan.runs.window, batch) if who == "windowed" else None
    operator = (
        Operator(plan, batch) if who == "plain" else WindowedOperator(plan, batch, windows) if windows else OpenedOperator(plan, batch)
    )
    if who == "opened":
        monkeypatch.setattr(RunsEngine, "feed", pairs_fed)
    else:
        monkeypatch.setattr(GroupMatching, "feed_selected", fed)
    monkeypatch.setattr("app.evaluation.operator.thread_time", lambda: clock)
    monkeypatch.setattr("app.evaluation.windows.thread_time", lambda: clock)
    of_event = candidate_items(plan, batch)
    event = np.arange(len(batch)) if who == "plain" else operator.windows.event
    can_be = of_event[event] != 0
    if who == "opened":
        can_be &= (of_event[event] & ~np.uint64(1) != 0) | operator.opening
    kept = np.random.default_rng(0).random(len(event)) < 0.6
    assert operator.work_s() == np.count_nonzero(can_be) > 100
    assert operator.work_s(kept) == np.count_nonzero(can_be & kept)


def test_an_overloaded_queue_sheds_from_the_first_event_on() -> None:
    def keep(ratio: float, start: int, stop: int) -> np.ndarray:
        return (np.random.default_rng(start).random(stop - start) >= ratio).astype(float)

    course = overload(1000, Load(2000, 1 / 1000, begun_s=0.8), keep)
    assert course.ratio[0] == pytest.approx(0.5, abs=0.01)
    assert course.latency_s[0] == pytest.approx(0.8, abs=0.01)
    assert course.latency_s.max() <= 1.0


def test_a_kind_of_event_is_its_type_and_the_constants_that_the_query_asks_for() -> None:
    where = "a.symbol = 'X' AND b.symbol IN ('X', 'Y') AND a.v <= b.v"
    plan = plan_of("within: 10 s\n", "SEQ(A a, B b, !(C c))", where)
    features = Features.of(plan)
    assert features.labels == ("A symbol=X", "B symbol=X", "B symbol=Y", "C symbol=X", "C symbol=Y", "C")
    assert features.attributes == ("v",)
    batch = stream(300)
    symbol = [batch.columns["symbol"].dictionary.entries()[code].decode() for code in batch.columns["symbol"].values]
    kinds = features.kinds(batch).tolist()
    types = [batch.type.dictionary.entries()[code].decode() for code in batch.type.values]
    for kind, name, text in zip(kinds, types, symbol, strict=True):
        label = f"{name} symbol={text}" if text in "XY" else name
        assert kind == (features.labels.index(label) if label in features.labels else -1)
    assert features.repetition(plan).tolist() == [1, 1, 1, 0, 0, 0]


def test_events_are_credited_for_matches_and_for_what_a_negation_ended() -> None:
    plan = plan_of("within: 10 s\nweight: 2\n", "SEQ(A a, !(B b), C c)", "a.v <= c.v")
    batch = events_of_types(list("ABCAC"), [0, 1, 2, 3, 4], {"v": Column(Kind.INTEGER, np.full(5, 3))})
    observed = event_observations(plan, Features.of(plan), batch)
    assert observed.weight.tolist() == [0, 0, 0, 2, 2]
    assert observed.abandoned.tolist() == [2, 2, 0, 0, 0]


def test_steps_of_partial_matches_are_those_of_a_naive_table() -> None:
    plan, batch = plan_of(f"{NEXT}within: 20 events\n"), stream(300)
    observed = MatchOperator(plan, batch).observations()
    types = [batch.type.dictionary.entries()[code].decode() for code in batch.type.values]
    values = batch.columns["v"].values
    live: list[list[int]] = []  # state, rank of the first event
    naive = np.zeros((3, 3), int)
    for rank, (name, value) in enumerate(zip(types, values.tolist(), strict=True)):
        live = [run for run in live if rank - run[1] < 20]
        for run in live:
            after = run[0] + (value <= 5 and name == "ABC"[run[0] + 1])
            naive[run[0], after] += rank - run[1] < 19 or after == 2
            run[0] = after
        live = [run for run in live if run[0] < 2] + ([[0, rank]] if name == "A" and value <= 5 else [])
    found = np.zeros((3, 3), int)
    np.add.at(found, (observed.before, observed.after), 1)
    assert found.tolist() == naive.tolist()
    assert observed.states.tolist() == [3]


def test_partial_matches_that_contiguity_ends_die_and_those_out_of_window_do_not() -> None:
    plan, batch = plan_of("strategy: strict-contiguity\nwithin: 4 s\n"), stream(3000)
    observed = MatchOperator(plan, batch).observations()
    types = [batch.type.dictionary.entries()[code].decode() for code in batch.type.values]
    naive: Counter[tuple[int, int]] = Counter()
    live: list[tuple[int, int]] = []  # state, time of the first event
    for name, value, time in zip(types, batch.columns["v"].values.tolist(), batch.time.tolist(), strict=True):
        fits = [value <= 5 and name == "ABC"[state + 1] for state, _ in live]
        within = [time - begun < 4000 for _, begun in live]
        naive.update((state, state + 1 if fit else -1) for (state, _), fit, inside in zip(live, fits, within, strict=True) if inside)
        live = [(state + 1, begun) for (state, begun), fit, inside in zip(live, fits, within, strict=True) if fit and inside and state == 0]
        live += [(0, time)] if name == "A" and value <= 5 else []
    assert Counter(zip(observed.before.tolist(), observed.after.tolist(), strict=True)) == naive
    assert min(naive[0, -1], naive[0, 1], naive[1, 2]) > 0
    chain = chains_of(observed)[0]
    assert chain.transitions[0].sum() == pytest.approx(naive[0, 1] / (naive[0, 1] + naive[0, -1]))


@pytest.mark.parametrize("after", ["", "after: skip-to-next\n"])
def test_outcomes_of_partial_matches_are_those_of_their_composite_events(after: str) -> None:
    plan, batch = plan_of(f"{NEXT}{after}within: 20 events\n", where="a.v < b.v AND a.v < c.v"), stream(400)
    observed = MatchOperator(plan, batch).observations(2.0)
    types = [batch.type.dictionary.entries()[code].decode() for code in batch.type.values]
    values = batch.columns["v"].values.tolist()
    naive = {}
    for rank, (name, value) in enumerate(zip(types, values, strict=True)):
        if name == "A":
            steps, state = [], 0
            for later in range(rank + 1, min(rank + 20, len(types))):
                if types[later] == "BC"[state] and values[later] > value:
                    steps, state = [*steps, later], state + 1
                    if state == 2:
                        break
            naive[rank] = (state == 2, steps[-1] + 1 if state == 2 else rank + 20)
    assert (observed.after == 2).sum() == sum(done for done, _ in naive.values())
    ranks = {int(one): rank for rank, one in enumerate(identities(batch.source, batch.offset))}
    sample = observed.sample
    assert len(sample) > 100
    for k, rank in enumerate(ranks[int(one)] for one in sample.identity):
        done, end = naive[rank]
        now = rank + 20 - int(sample.remaining[k])
        assert observed.gain[k] == done
        assert observed.cost_s[k] == pytest.approx(2.0 * (end - now), abs=2.0)
        assert sample.values[0, k] == values[rank]


def test_dropping_partial_matches_at_random_keeps_the_bound_and_invents_nothing() -> None:
    class Coin:
        def __init__(self, ratio: float) -> None:
            self.ratio = ratio

        def keep(self, candidates):
            return candidates.identity.astype(float) / 2**64 >= self.ratio

    class Coins:
        def gate(self, ratio: float) -> Coin:
            return Coin(ratio)

    plan, batch = plan_of(f"{NEXT}within: 60 events\n"), stream(3000)
    operator = MatchOperator(plan, batch)
    truth = Operator(plan, batch).run()
    calm = operator.run(MatchLoad(1.0, 1e-4, 1e-4, bound_s=np.inf), None)
    assert Quality.of(truth, calm.outcome) == Quality(len(truth), len(truth), len(truth))
    rate = 1.5 / (1e-4 + 1e-4 * calm.matches.mean())
    course = operator.run(MatchLoad(rate, 1e-4, 1e-4, bound_s=0.2), Coins())
    quality = Quality.of(truth, course.outcome)
    assert course.dropped.sum() > 50
    assert course.latency_s.max() <= 0.2
    assert (
        0.08 < np.median(course.latency_s[1000:]) < 0.17
    )  # partial matches come in bursts: the queue is at the plateau (0.16) or has been worked off
    assert quality.precision == 1.0
    assert 0.2 < quality.recall < 0.95


@pytest.mark.parametrize("waiting", [0.0, 0.5, 0.8, 0.95])
def test_as_many_partial_matches_stay_as_let_events_take_what_the_law_allows(waiting: float) -> None:
    load = MatchLoad(rate=100.0, cost_s=0.001, match_cost_s=0.0001, shedding_s=0.00001)
    share = 1 + (0.8 - waiting) / (
        0.8 if waiting < 0.8 else 0.2
    )  # of 10 ms between two events: twice as much when nobody waits, nothing at the bound
    by_hand = (0.01 * share - 0.001 - 0.00001 * 300) / 0.0001
    assert load.allowed(waiting, 300) == max(0, min(300, int(by_hand + 1e-9)))
    assert load.allowed(waiting, 3) == (3 if 0.01 * share >= 0.001 + 0.0003 else 0)


def test_a_contest_tells_gspice_from_chance() -> None:
    plan, batch = plan_of(f"{NEXT}window: {{size: 100 s, slide: 20 s}}\n"), stream(9000)
    contest = Contest(plan, rows_between(batch, 0, 6000), rows_between(batch, 6000, 9000), Terms(fixed=True))
    lost = {}
    for name in ("random", "gspice"):
        shedder = method(name)
        (standing,) = contest.standings(shedder, contest.train(shedder), [1.6])
        assert standing.dropped == pytest.approx(0.375, abs=0.04)
        lost[name] = standing.quality.false_negatives
    assert lost["gspice"] < 0.1
    assert lost["random"] > 0.5


def test_what_an_operator_cannot_drop_is_refused_in_words() -> None:
    batch = stream(300)
    plan = plan_of("within: 20 s\nevaluator: runs\n")
    contest = Contest(plan, batch, batch, Terms())
    with pytest.raises(ValueError, match="judged by events"):
        contest.train(method("cals"))


def test_thefts_survive_where_whole_chains_go_and_single_events_do_not() -> None:
    batch = in_total_order(concatenate(list(generate("retail", 40_000, seed=3, start_ms=0).batches)))
    places = {"ShelfReading": "shelf_id", "CounterReading": "counter_id", "ExitReading": "exit_id"}
    kinds = {name: {"tag_id": Kind.STRING, "store_id": Kind.INTEGER, place: Kind.INTEGER} for name, place in places.items()}
    types = tuple(EventType(name, tuple(Attribute(*one) for one in own.items())) for name, own in kinds.items())
    (plan,) = read_queries([PROJECT / "queries" / "shoplifting.yaml"], {"retail": StreamSchema("retail", types)}).catalog.plans
    contest = Contest(plan, rows_between(batch, 0, 20_000), rows_between(batch, 20_000, 40_000), Terms(fixed=True))
    quality = {}
    for name in ("prefix", "gspice"):
        shedder = method(name)
        (standing,) = contest.standings(shedder, contest.train(shedder), [2.0])
        quality[name] = standing.quality
    assert quality["prefix"].true > 100
    assert quality["prefix"].recall > 0.95
    assert quality["prefix"].precision == 1.0, "what is dropped is over"
    assert quality["gspice"].recall < 0.2, "drops exits, which are of little use each, and all thefts with them"
