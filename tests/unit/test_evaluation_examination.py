"""What is learned beside the stream: judged on events that the model has not seen, as the application would shed there; and when it no longer fits."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest

from app.cli.shedding.shed_queries import read_shed_queries
from app.control.law.running import remembered
from app.evaluation import split, windows
from app.evaluation.examination import FEWEST, Examination, Profile, Promise, TooFewError, competitors
from app.evaluation.operator import Operator
from app.evaluation.split import LEARN, RATES, Split
from app.events.batch import take
from app.features.batches import JudgedBatch
from app.features.events import Features, candidate_items
from shedding.registry import METHODS, unlearned

QUERY = """
name: rises
event: SEQ(A a, B b)
where: "[k] AND b.v >= a.v + 60"
within: 1 s
return: {k: b.k}
shedding: {shedder: SHEDDER, latency_bound: 1 s}
"""
"""A low `a` and a high `b` are worth much."""
WIDER = QUERY.replace("within: 1 s", "within: 30 s")
EVENTS = 12_000
EVENT_METHODS = {"bl", "gspice", "gspice-tree", "gspice-forest", "espice", "e-bl", "prefix"}
CLOSURE = (
    QUERY.replace("SEQ(A a, B b)", "SEQ(A a, B+ b[], A c)")
    .replace("b.v >= a.v + 60", "b[i].v >= a.v + 60 AND c.v > a.v + 30")
    .replace("b.k", "a.k")
)
"""Its partial matches are what its engine holds."""


def recorded(folder, shedder="gspice", seed=1, share=0.5, low=0, events=EVENTS, text=QUERY, useless=0.0):
    """A recording of which `share` are of type A, values from `low` on, and of which `useless` are of a type that no item takes; and the query."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["A", "B"], events, p=[share, 1 - share])
    if useless:
        kinds = np.where(rng.random(events) < useless, "C", kinds)
    kinds = kinds.tolist()
    values = (low + rng.integers(0, 100, events)).tolist()
    keys = rng.integers(0, 20, events).tolist()
    lines = [
        {"type": kind, "time": 1_780_000_000_000 + 10 * n, "k": key, "v": value}
        for n, (kind, key, value) in enumerate(zip(kinds, keys, values, strict=True))
    ]
    folder.mkdir(exist_ok=True)
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "rises.yaml").write_text(text.replace("SHEDDER", shedder))
    (query,) = read_shed_queries([folder / "rises.yaml"], folder / "events.jsonl", None, None)
    return query


@pytest.fixture(scope="module")
def query(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("examination"))


def test_a_model_that_knows_which_values_matter_is_better_than_chance(query):
    lesson = Examination(query).lesson(None)
    assert lesson.shedder == "gspice"
    assert lesson.harm < 0.6 * lesson.random
    assert (lesson.in_use, lesson.worth_taking) == (None, True)


def test_harm_is_what_the_query_loses_and_invents_among_events_that_were_not_learned_from(query):
    examination = Examination(query)
    cut = int(len(query.batch) * LEARN)
    model = Split(query, cut, len(query.batch), 0).trained("gspice")
    assert model.manifest.last_ms < query.batch.time[cut]
    batch = take(query.batch, np.arange(cut, len(query.batch)))
    operator, lost = Operator(query.plan, batch), []
    truth = set(operator.run().identity.tolist())
    for rate in (1.3, 1.8):
        kept = JudgedBatch(batch).kept(model, Features.of(query.plan), 1 - 1 / rate)
        assert 1 - kept.mean() == pytest.approx(1 - 1 / rate, abs=0.05)
        found = set(operator.run(kept).identity.tolist())
        lost.append((len(truth - found) + len(found - truth)) / len(truth))
    assert examination.harm(model) == pytest.approx(np.mean(lost), abs=0.03)
    assert examination.lesson(None).harm == examination.harm(model)
    assert examination.true == len(truth)


@pytest.mark.slow
@pytest.mark.parametrize("shedder", ["gspice", "prefix", "bl", "espice"])
def test_where_few_events_are_of_any_use_the_share_of_them_that_was_asked_for_goes(tmp_path, shedder):
    """What selection keeps away goes first: all that is asked of the application lies between the last hundredths of the ratio."""
    model = Examination(recorded(tmp_path / "learned", shedder, events=100_000, useless=0.97, text=WIDER)).trained(shedder)
    query = recorded(tmp_path / "other", shedder, seed=2, events=100_000, useless=0.97, text=WIDER)
    candidates = candidate_items(query.plan, query.batch) != 0
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        kept = JudgedBatch(query.batch).kept(model, Features.of(query.plan), share)
        assert 1 - kept[candidates].mean() == pytest.approx(share, abs=0.07)


def test_what_is_taken_into_use_has_learned_from_everything_also_from_what_its_method_was_judged_by(query):
    lesson = Examination(query).lesson(None)
    judged = Split(query, int(len(query.batch) * LEARN), len(query.batch), 0).trained(lesson.shedder)
    assert lesson.model.manifest.last_ms == query.batch.time[-1] > judged.manifest.last_ms


@pytest.mark.parametrize(
    ("power", "gone"), [(2.0, (1 - 1.3**-0.5, 1 - 1.8**-0.5)), (0.25, (1 - 1.3**-4, 1 - 1.8**-4)), (0.05, (1 - 1.3**-5, 1 - 1.8**-5))]
)
def test_so_much_goes_that_the_rest_is_the_work_that_may_stay(query, monkeypatch, power, gone):
    """What matching takes is said here: a power of the share that is kept."""
    examination = Examination(query)
    judged = len(query.batch) - int(len(query.batch) * LEARN)
    monkeypatch.setattr(Split, "_seconds", lambda _, kept: 7.0 * (1.0 if kept is None else kept.mean()) ** power)
    random = unlearned("random")
    batch = take(query.batch, np.arange(len(query.batch) - judged, len(query.batch)))
    operator = Operator(query.plan, batch)
    truth, lost = len(operator.run()), []
    for share in gone:
        kept = JudgedBatch(batch).kept(random, Features.of(query.plan), share)
        lost.append(1 - len(operator.run(kept)) / truth)
    assert examination.harm(random) == pytest.approx(np.mean(lost), abs=0.03)


def test_matching_that_is_too_short_to_be_timed_is_not(query, monkeypatch):
    plain = Examination(query)
    monkeypatch.setattr(Split, "_unshed_s", 0.0099)
    by_events = plain.harm(unlearned("random"))
    monkeypatch.setattr(Split, "_unshed_s", 5.0)
    monkeypatch.setattr(Split, "_seconds", lambda _, kept: 5.0 * (1.0 if kept is None else kept.mean()))
    assert plain.harm(unlearned("random")) == pytest.approx(by_events, abs=0.02), "an event is an event"


def test_what_drops_nothing_is_no_better_than_chance_since_the_share_must_go(query):
    examination = Examination(query)
    assert examination.harm(unlearned("none")) == pytest.approx(examination.harm(unlearned("random")), abs=0.04)
    assert examination.harm(unlearned("random")) > 0.3


def test_the_model_in_use_stays_unless_the_new_one_is_clearly_better(query):
    examination = Examination(query)
    used = examination.lesson(None).model
    again = Examination(query).lesson(used)
    assert (again.in_use, again.worth_taking) == (again.beside, False), "both have learned from what they are judged by"
    assert again.harm > again.beside
    blind = Examination(query).lesson(unlearned("random", 3))
    assert blind.worth_taking


def test_auto_takes_whoever_does_least_harm(tmp_path):
    query = recorded(tmp_path / "auto", "auto")
    examination = Examination(query)
    lesson = examination.lesson(None)
    assert set(competitors(query.plan)) == EVENT_METHODS
    single = Examination(recorded(tmp_path / "bl", "bl")).lesson(None)
    assert lesson.harm < single.harm
    assert METHODS[lesson.shedder].level in ("events", "events per window")


@pytest.mark.slow
def test_shedders_of_partial_matches_compete_where_the_engine_has_them_anyway(tmp_path, query):
    closure = recorded(tmp_path / "closure", "auto", events=4_000, text=CLOSURE)
    assert set(competitors(closure.plan)) == EVENT_METHODS | {"pspice", "stateful"}
    assert set(competitors(query.plan)) == EVENT_METHODS, "sequences are run by stacks"
    examination = Examination(closure)
    lesson = examination.lesson(None)
    assert lesson.harm == min(examination.harm_of(name) for name in ("stateful", "gspice", lesson.shedder))
    assert lesson.harm < lesson.random


def test_with_few_composite_events_all_of_them_are_judged_by(tmp_path):
    query = recorded(tmp_path / "some", "bl", events=700)
    batch = query.batch
    examination, cuts = Examination(query), [0, 233, 466, 700]
    true, harm = 0, 0.0
    for start, stop in pairwise(cuts):
        judged = take(batch, np.arange(start, stop))
        operator, features = Operator(query.plan, judged), Features.of(query.plan)
        truth = set(operator.run().identity.tolist())
        model = unlearned("random")
        for rate in RATES:
            asked = (JudgedBatch(judged).kept(model, features, ratio) for ratio in np.linspace(0, 1, 1001))
            found = set(operator.run(next(kept for kept in asked if kept.mean() <= 1 / rate)).identity.tolist())
            harm += (len(truth - found) + len(found - truth)) / len(RATES)
        true += len(truth)
    assert true >= FEWEST
    assert examination.true == true
    assert examination.random == pytest.approx(harm / true, abs=0.03)
    lesson = examination.lesson(None)
    assert lesson.true == true
    assert lesson.model.manifest.last_ms == batch.time[-1], "what is taken into use has learned from everything"


@pytest.mark.slow
def test_partial_matches_are_judged_as_such(tmp_path):
    of_pspice = recorded(tmp_path / "pspice", "pspice", events=6000)
    lesson = Examination(of_pspice).lesson(None)
    assert lesson.shedder == "pspice"
    assert 0 < lesson.harm < 1
    assert lesson.model.manifest.window_events > 0
    first, last = lesson.model.manifest.first_ms, lesson.model.manifest.last_ms
    assert of_pspice.batch.time[0] <= first < last == of_pspice.batch.time[-1]


@pytest.mark.slow
def test_shedders_of_partial_matches_learn_where_there_are_composite_events(tmp_path, monkeypatch):
    """The newest of so many as they follow have none: of a model that learned from those, all are worth nothing."""
    monkeypatch.setattr(split, "MOST_STEPS", 2_000)
    query = recorded(tmp_path / "pspice", "pspice", events=6_000)
    values = query.batch.columns["v"].values.copy()
    values[3_000:] = 0
    without = replace(query.batch.columns["v"], values=values)
    query = replace(query, batch=replace(query.batch, columns={**query.batch.columns, "v": without}))
    parts = Split(query, 4_000, 6_000, 0), Split(query, 5_000, 6_000, 0).with_all()
    assert len(Operator(query.plan, take(query.batch, np.arange(3_000, 6_000))).run()) == 0
    assert all(part.trained("pspice").table.utility.max() > 0 for part in parts)


def test_too_few_composite_events_teach_nothing(tmp_path):
    query = recorded(tmp_path / "few", events=300)
    with pytest.raises(TooFewError, match="30 are the least"):
        Examination(query).lesson(None)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, None),
        ({"seed": 5}, None),
        ({"seed": 6, "events": 3000}, None),
        ({"share": 0.35}, "other shares"),
        ({"low": 15}, "values of v"),
        ({"low": 1000}, "values of v"),
    ],
)
def test_a_model_no_longer_fits_when_shares_or_values_change(query, tmp_path, changed, why):
    then = Profile.of(query.plan, query.batch)
    found = Profile(**json.loads(json.dumps(asdict(then)))).drift_to(Profile.of(query.plan, recorded(tmp_path / "now", **changed).batch))
    assert found is None if why is None else why in str(found), found


def test_the_one_in_use_is_compared_with_what_has_seen_as_much_as_it_has(query):
    examination = Examination(query)
    held_out, all_seen = examination.harm_of("gspice"), examination.harm(examination.trained("gspice"))
    (part,) = examination._splits
    times, learned = part._judging.time, examination.trained("gspice")
    for seen in (0.0, 0.25, 1.0):
        until = int(times[0]) - 1 if not seen else int(times[int(seen * len(times)) - 1])
        used = replace(learned, manifest=replace(learned.manifest, last_ms=until))
        share = float((times <= until).mean())
        assert share == pytest.approx(seen, abs=0.01)
        assert examination.lesson(used).beside == pytest.approx(share * all_seen + (1 - share) * held_out)


def test_what_always_moves_says_nothing_about_a_model_and_what_stands_still_does(query):
    def moved(values):
        return replace(query.batch, columns={**query.batch.columns, "v": replace(query.batch.columns["v"], values=values)})

    count, still = np.arange(len(query.batch)), query.batch.columns["v"].values
    then, now = Profile.of(query.plan, moved(count)), Profile.of(query.plan, moved(count + 3 * len(count)))
    assert then.moving["v"] == pytest.approx(1.0, abs=0.05)
    assert then.drift_to(now) is None
    begun = Profile.of(query.plan, moved(np.where(count > 0.6 * len(count), still + 1000, still)))
    assert begun.moving["v"] < 0.1, "one step is no movement"
    assert "values of v" in str(begun.drift_to(Profile.of(query.plan, moved(still + 1000))))
    assert remembered(Profile, {**asdict(then), "of a later version": 1}) == then


def test_where_nothing_comes_nothing_has_drifted(query):
    then = Profile.of(query.plan, query.batch)
    assert Profile.of(query.plan, take(query.batch, np.zeros(0, np.int64))) == Profile()
    assert then.drift_to(Profile()) is None


def test_a_profile_has_shares_among_candidates(query):
    profile = Profile.of(query.plan, query.batch)
    assert sum(profile.kinds.values()) == pytest.approx(1)
    assert set(profile.kinds) == {"A", "B"}
    points = dict(profile.values["v"])
    values = query.batch.columns["v"].values
    assert all(share == pytest.approx(np.mean(values <= point), abs=1e-5) for point, share in points.items())


def joined(folder, alive, seed, events=EVENTS):
    """A recording in which events with the values that are alive meet others of their key, and those with other values never do. Who looks at one event after the other sees no difference."""
    rng = np.random.default_rng(seed)
    lines = []
    for n, (kind, value, key) in enumerate(
        zip(rng.choice(["A", "B"], events), rng.integers(0, 4, events), rng.integers(0, 10, events), strict=True)
    ):
        apart = 10 * int(rng.integers(0, 2)) if value in alive else 10 * (kind == "B")
        lines.append({"type": str(kind), "time": 1_780_000_000_000 + 10 * n, "k": int(key) + apart, "v": int(value)})
    folder.mkdir(exist_ok=True)
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "rises.yaml").write_text(QUERY.replace("SHEDDER", "gspice").replace("b.v >= a.v + 60", "b.v = a.v"))
    (query,) = read_shed_queries([folder / "rises.yaml"], folder / "events.jsonl", None, None)
    return query


def test_a_model_no_longer_fits_when_something_else_becomes_of_events_that_look_as_ever(tmp_path):
    then, same, other = joined(tmp_path / "then", {0, 1}, 1), joined(tmp_path / "same", {0, 1}, 2), joined(tmp_path / "other", {2, 3}, 3)
    examination = Examination(then)
    lesson = examination.lesson(None)
    promise = Promise(lesson.harm, lesson.random, lesson.true)
    profile = Profile.of(then.plan, then.batch)
    for query in (same, other):
        assert profile.drift_to(Profile.of(query.plan, query.batch)) is None
    assert Examination(same).decline(lesson.model, promise) is None
    why = Examination(other).decline(lesson.model, promise)
    assert why is not None
    assert "when it was judged last" in why
    assert Examination(other).decline(lesson.model, replace(promise, true=FEWEST - 1)) is None, "too few to tell"


def test_kinds_that_all_change_places_are_drift_however_many_there_are():
    half = 1 / 32
    then = Profile({f"k{n}": half if n < 32 else 0.0 for n in range(64)}, {}, 20_000)
    now = Profile({f"k{n}": half if n >= 32 else 0.0 for n in range(64)}, {}, 20_000)
    assert "kinds of events have other shares" in str(then.drift_to(now))
    assert then.drift_to(then) is None


def of_kinds(query, kinds):
    """The recording with other types of events, in this order."""
    types = query.batch.type
    codes = {types.dictionary.entry(code).decode(): code for code in range(len(types.dictionary))}
    values = np.array([codes[kind] for kind in kinds], dtype=types.values.dtype)
    return replace(query.batch, type=replace(types, values=values))


def test_shares_of_kinds_that_always_come_and_go_say_nothing_and_new_ones_do(query):
    size = len(query.batch)
    rng = np.random.default_rng(3)

    def bursts(low, high, seed=0):
        """A fifth of the time one kind is as frequent as that, the next fifth the other way round."""
        share = np.where(np.arange(size) * 5 // size % 2, low, high)
        return of_kinds(query, np.where(np.random.default_rng(seed).random(size) < share, "A", "B"))

    then = Profile.of(query.plan, bursts(0.4, 0.6))
    assert then.moving_kinds > 0.1
    part = bursts(0.4, 0.6, 1)
    assert then.drift_to(Profile.of(query.plan, take(part, np.arange(size // 5)))) is None, "as in any fifth of what was learned from"
    still = Profile.of(query.plan, of_kinds(query, rng.choice(["A", "B"], size)))
    assert still.moving_kinds < 0.05
    assert "other shares" in str(still.drift_to(Profile.of(query.plan, take(part, np.arange(size // 5)))))
    assert "other shares" in str(then.drift_to(Profile.of(query.plan, of_kinds(query, ["A"] * size))))


def test_a_change_in_the_middle_of_what_was_learned_from_is_drift_to_what_came_behind_it(query):
    size = len(query.batch)
    mixed = of_kinds(query, ["A" if n % 4 else "B" for n in range(size // 2)] + ["B" if n % 4 else "A" for n in range(size - size // 2)])
    later = Profile.of(query.plan, take(mixed, np.arange(size // 2, size)))
    assert "other shares" in str(Profile.of(query.plan, mixed).drift_to(later)), (
        "it is learned anew until there is enough of what comes now"
    )


def test_windows_are_counted_in_the_events_that_a_model_has_learned_from(query, monkeypatch):
    """Partial matches are learned from a stretch; where it is a burst, a window holds more events there than on average."""
    monkeypatch.setattr(split, "MOST_STEPS", 2_000)
    size = len(query.batch)
    times = query.batch.time.copy()
    slow = np.arange(size) < size // 2
    times[slow] = times[0] + 100 * np.arange(size // 2)
    times[~slow] = times[size // 2 - 1] + 1 + np.arange(size - size // 2)  # a hundred times as fast
    burst = replace(query, batch=replace(query.batch, time=times))
    part = split.Split(burst, 0, size // 4, seed=0)
    learned = part._contest("pspice").learning
    assert len(learned) == 2_000
    model = part.trained("pspice")
    assert model.manifest.window_events == pytest.approx(windows.window_events(burst.as_runs, learned))
    assert model.manifest.window_events != pytest.approx(windows.window_events(burst.as_runs, part._learning), rel=0.2)
