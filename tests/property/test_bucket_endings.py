"""Partial matches shed in the matching stage: a bucket that was restored in between ends the same ones, and what is left was there before."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket.engines import new_engine, restore_engine
from app.bucket.hold import TimeRules
from app.bucket.recording import match_sorted
from app.cep.engine import Watermarks
from app.cep.runs.engine import RunsEngine
from app.events.batch import in_total_order, take
from app.features.partial_matches import progress_of_items
from app.files.gathering import parse_events
from app.owners.endings import MatchShedder
from app.owners.least_progress import LeastProgress
from app.query.compile import compile_texts
from app.query.resolved.vocabulary import Streams
from shedding.candidates import JudgedMatches, Mask
from shedding.identity import shuffled
from shedding.interface import Manifest, Model
from shedding.partial_matches.selection import all_but_least
from shedding.registry import unlearned
from tests.naive.patterns import yaml_text
from tests.property.test_bucket_whole_language import identities, in_steps, run
from tests.property.whole_language import is_valid_for, queries, streams

INVENTING = ("after", "emit", "window", "!")
"""What makes a match depend on other matches, or absent events."""
ALONE = frozenset((0,))


@dataclass(frozen=True)
class AllAlike:
    """A model by which all partial matches are worth the same: as pSPICE's gate, a count of them goes."""

    drop_ratio: float = 0.0
    manifest: Manifest = field(default_factory=lambda: Manifest("pspice"))

    def gate(self, drop_ratio: float) -> AllAlike:
        return AllAlike(drop_ratio)

    def keep(self, candidates: JudgedMatches) -> Mask:
        count = round(self.drop_ratio * len(candidates))
        return all_but_least(candidates.state.astype(np.float64), shuffled(candidates.identity, 1), count)


@settings(max_examples=max(150, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_a_restored_bucket_ends_the_same_partial_matches(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(is_valid_for(query, lines))
    text = yaml_text(query) + "shedding: {shedder: pm-random, latency_bound: 1 s}\n"
    note(text + "\n".join(map(json.dumps, lines)))
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compiled = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    assume(not compiled.errors)
    (plan,) = compiled.catalog.plans
    assert plan.evaluator == "runs"
    batch = in_total_order(file.batch)
    rules = TimeRules(plan.streams[0], 0)
    steps = in_steps(data, batch)
    model = data.draw(st.sampled_from([unlearned("pm-random", seed=2), AllAlike(), LeastProgress(seed=2)]))
    judge = MatchShedder(plan, model, progress_of_items(plan))
    shares = [data.draw(st.sampled_from([0.0, 0.3, 0.7, 1.0])) for _ in (*steps, None)]
    ratios = [data.draw(st.sampled_from([0.0, 0.4, 1.0])) for _ in shares]
    endings = [{0: judge.ending(share, ratio)} if share or ratio else {} for share, ratio in zip(shares, ratios, strict=True)]
    buckets = data.draw(st.integers(1, 2))
    whole = run(compiled.catalog, rules, steps, buckets, set(), endings, ALONE)
    restored = run(compiled.catalog, rules, steps, buckets, set(range(len(steps) + 1)), endings, ALONE)
    note(f"only without restarts {whole - restored}, only with {restored - whole}")
    assert restored == whole
    ended = sum(key[4] for key in whole if key[0] == "shed")
    event("ended some" if ended else "ended none")
    if not any(word in text.split("shedding:")[0] for word in INVENTING):
        matches = Counter({key: count for key, count in whole.items() if key[0] == "match"})
        everything = identities(compiled.catalog, match_sorted(compiled.catalog, batch).found)
        assert matches <= everything, "ending partial matches invents nothing"


@pytest.mark.parametrize("model", [unlearned("pm-random", seed=1), AllAlike(), LeastProgress(seed=1)])
def test_the_asked_share_of_partial_matches_is_ended_and_their_matches_are_lost(model: Model[JudgedMatches]) -> None:
    text = "name: q\nevent: SEQ(A a, B b)\nwithin: 10 s\nwhere: '[k]'\nshedding: {shedder: pm-random, latency_bound: 1 s}\n"
    lines = [{"type": "A" if k < 1000 else "B", "time": k, "k": k % 1000} for k in range(2000)]
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compiled = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    (plan,) = compiled.catalog.plans
    ending = MatchShedder(plan, model, progress_of_items(plan)).ending(0.4)
    steps = [[take(file.batch, np.arange(1001))], [take(file.batch, np.arange(1001, 2000))]]
    found = run(compiled.catalog, TimeRules(plan.streams[0], 0), steps, 1, set(), [{}, {0: ending}], ALONE)
    ((judged, ended),) = [key[3:] for key in found if key[0] == "shed"]
    assert judged == 1000
    assert ended == pytest.approx(400, abs=50)
    assert sum(key[0] == "match" for key in found) == judged - ended


@pytest.mark.slow
@pytest.mark.parametrize("model", [unlearned("pm-random", seed=1), AllAlike(), LeastProgress(seed=1)])
@pytest.mark.parametrize("ratio", [0.0, 0.8])
@pytest.mark.parametrize(("within", "keys"), [("1 s", 1), ("100 events", 1), ("100 events", 3)])
def test_in_a_batch_of_many_windows_partial_matches_are_ended_as_they_are_made(
    model: Model[JudgedMatches], ratio: float, within: str, keys: int
) -> None:
    """Nothing is there before the batch, and what is there behind it would be there without shedding but for the last look."""
    text = f"name: q\nevent: SEQ(A a, B b)\nwithin: {within}\nwhere: '[k]'\nshedding: {{shedder: pm-random, latency_bound: 1 s}}\n"
    lines = [{"type": "AAAB"[k % 4], "time": 10 * k, "k": k // 4 % keys} for k in range(4000)]
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compiled = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    (plan,) = compiled.catalog.plans
    ending = MatchShedder(plan, model, progress_of_items(plan)).ending(0.0, ratio)
    found = run(compiled.catalog, TimeRules(plan.streams[0], 0), [[file.batch]], 1, set(), [{0: ending}], ALONE)
    everything = sum(identities(compiled.catalog, match_sorted(compiled.catalog, file.batch).found).values())
    left = sum(key[0] == "match" for key in found) / everything
    ended = [key[4] for key in found if key[0] == "shed"]
    if not ratio:
        assert left == 1
        assert not any(ended)
    else:
        # of those made since the last look, an eighth of a window, all are met by what comes before the next one
        assert sum(ended) == pytest.approx(0.8 * 3000 * (1 - 1 / 320), rel=0.06)
        assert 0.2 <= left < 0.35


def test_in_batches_that_are_shorter_than_a_look_is_due_every_new_partial_match_is_looked_at_once() -> None:
    text = "name: q\nevent: SEQ(A a, B b)\nwithin: 10 s\nwhere: '[k]'\nshedding: {shedder: pm-random, latency_bound: 1 s}\n"
    lines = [{"type": "A", "time": 10 * k, "k": 0} for k in range(400)]
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compiled = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    (plan,) = compiled.catalog.plans
    ending = MatchShedder(plan, unlearned("pm-random", seed=1), progress_of_items(plan)).ending(0.0, 0.5)
    steps = [[take(file.batch, np.arange(first, first + 20))] for first in range(0, 400, 20)]
    found = run(compiled.catalog, TimeRules(plan.streams[0], 0), steps, 1, set(), [{0: ending}] * len(steps), ALONE)
    judged, ended = np.array([key[3:] for key in found if key[0] == "shed" for _ in range(found[key])]).sum(axis=0)
    assert 400 - 22 <= judged <= 400 - 20, "those of the last batch wait for the next one"
    assert ended == pytest.approx(judged / 2, rel=0.06)


def test_a_query_that_gets_such_a_shedder_starts_anew_where_its_state_is_of_another_engine() -> None:
    text = "name: q\nevent: SEQ(A a, B b)\nwithin: 10 s\nwhere: '[k]'\nstrategy: skip-till-next-match\n"
    file = parse_events(b'{"type": "A", "time": 0, "k": 1}\n{"type": "B", "time": 5, "k": 1}\n')
    plans = [
        compile_texts([("q.yaml", text + more)], Streams(everything=file.schema)).catalog.plans[0]
        for more in ("", "shedding: {shedder: pspice, latency_bound: 1 s}\n")
    ]
    assert plans[0].fingerprint == plans[1].fingerprint
    first = new_engine(plans[0])
    first.feed(take(file.batch, np.arange(1)), np.array([1], np.uint64), Watermarks(0))
    restored = [restore_engine(plan, first.snapshot()) for plan in plans]
    found = [engine.feed(take(file.batch, np.arange(1, 2)), np.array([2], np.uint64), Watermarks(5))[0] for engine in restored]
    assert [len(matches) for matches in found] == [1, 0]
    assert isinstance(restored[1], RunsEngine)
