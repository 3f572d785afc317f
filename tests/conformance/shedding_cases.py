"""Candidates and observations of every level, for the conformance suite: a level gets its checks by a line in `CASES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from shedding.candidates import JudgedEvents, JudgedInMatches, JudgedInWindows, JudgedMatches, JudgedTuples
from shedding.identity import identities
from shedding.observations import EventObservations, MatchObservations, PairObservations, Shape, WindowObservations
from shedding.panes import Pane, carried
from shedding.windows import time_windows

SIZE = 20_000


@dataclass(frozen=True)
class Case:
    """How to check the methods of one level.

    Attributes:
        candidates: candidates by seed; all seeds have the same distribution, and no two candidates share an identity.
        observations: what to learn from, by seed.
        parts: candidates cut into consecutive batches; None when a gate chooses among all that it is given.
    """

    candidates: Callable[[int], Any]
    observations: Callable[[int], Any]
    parts: Callable[[Any], list[Any]] | None = None


def some_events(seed: int) -> JudgedEvents:
    """Five types of different shares; two attributes, one of whole numbers that decides about use, one that does not."""
    chance = np.random.default_rng(seed)
    types = chance.choice(5, SIZE, p=[0.4, 0.3, 0.15, 0.1, 0.05]).astype(np.int32)
    return JudgedEvents(
        identity=identities(np.full(SIZE, seed), np.arange(SIZE)),
        time=np.cumsum(chance.integers(0, 100, SIZE)),
        type=types,
        items=np.array([1, 2, 4, 0, 0], np.uint64)[types],
        key=identities(np.zeros(SIZE, np.int64), np.arange(SIZE) % 7),
        values=np.stack(
            [chance.integers(1, 11, SIZE).astype(np.float64), np.where(chance.random(SIZE) < 0.1, np.nan, chance.random(SIZE))]
        ),
    )


def event_observations(seed: int) -> EventObservations:
    """Of use are types 0 to 2 with a small first attribute, the more the rarer."""
    events = some_events(seed)
    chance = np.random.default_rng([seed, 1])
    likely = np.array([0.1, 0.4, 0.9, 0.0, 0.0])[events.type] * (events.values[0] <= 5)
    weight = chance.poisson(likely).astype(np.float64)
    abandoned = np.where(events.type == 1, chance.poisson(0.1, SIZE), 0).astype(np.float64)
    return EventObservations(events, weight, abandoned, repetition=np.array([1.0, 1.0, 2.0, 0.0, 0.0]), shape=Shape((-1, 0, 1), 0, 5000))


def event_parts(events: JudgedEvents) -> list[JudgedEvents]:
    """Three batches, one of them empty, each with what went before."""
    parts, before = [], events.before
    for cut in (slice(0, 17), slice(17, 17), slice(17, None)):
        part = JudgedEvents(
            events.identity[cut], events.time[cut], events.type[cut], events.values[:, cut], before, events.items[cut], events.key[cut]
        )
        before = carried(before, part, [Pane(events=SIZE)])
        parts.append(part)
    return parts


def some_pairs(seed: int) -> JudgedInWindows:
    """Windows of four seconds every two, of varying size."""
    return time_windows(some_events(seed), 4000, 2000)


def window_observations(seed: int) -> WindowObservations:
    """Of use are types 0 to 2, each in another third of the window."""
    pairs, chance = some_pairs(seed), np.random.default_rng([seed, 2])
    types = pairs.events.type[pairs.event]
    likely = np.where(types == np.floor(3 * pairs.position / pairs.size), np.array([0.1, 0.4, 0.9, 0.0, 0.0])[types], 0.0)
    return WindowObservations(pairs, chance.poisson(likely).astype(np.float64), repetition=np.array([1.0, 1.0, 2.0, 0.0, 0.0]))


def pair_parts(pairs: JudgedInWindows) -> list[JudgedInWindows]:
    """Three batches, one of them empty."""
    cuts = (slice(0, 17), slice(17, 17), slice(17, None))
    return [JudgedInWindows(pairs.events, pairs.event[cut], pairs.window[cut], pairs.position[cut], pairs.size[cut]) for cut in cuts]


def some_matches(seed: int) -> JudgedMatches:
    """Two queries of four and three states."""
    chance = np.random.default_rng(seed)
    query = chance.integers(0, 2, SIZE).astype(np.int32)
    return JudgedMatches(
        identity=identities(np.full(SIZE, seed), np.arange(SIZE)),
        query=query,
        state=chance.integers(0, 3 - query).astype(np.int32),
        remaining=np.floor(chance.random(SIZE) * 500),
        values=np.where(chance.random((2, SIZE)) < 0.1, np.nan, chance.random((2, SIZE))),
    )


def match_observations(seed: int) -> MatchObservations:
    """Steps that go on seldom, of which the second query's cost more."""
    chance, matches = np.random.default_rng([seed, 1]), some_matches(seed)
    after = (matches.state + (chance.random(SIZE) < 0.01)).astype(np.int32)
    spent_s = (1 + matches.query) * chance.exponential(1e-6, SIZE)
    gain = (chance.random(SIZE) < 0.3 * (np.nan_to_num(matches.values[0]) > 0.5)).astype(np.float64)
    queries = np.array([4, 3], np.int32), np.array([1.0, 2.0]), np.array([500.0, 400.0])
    return MatchObservations(matches.query, matches.state, after, spent_s, *queries, matches, gain, 1e-6 * matches.remaining)


def some_encounters(seed: int) -> JudgedInMatches:
    """Five types against three states."""
    chance = np.random.default_rng(seed)
    return JudgedInMatches(
        identity=identities(np.full(SIZE, seed), np.arange(SIZE)),
        query=np.zeros(SIZE, np.int32),
        type=chance.integers(0, 5, SIZE).astype(np.int32),
        state=chance.integers(0, 3, SIZE).astype(np.int32),
        position=chance.random(SIZE),
    )


def encounter_observations(seed: int) -> PairObservations:
    """Of use is the type that fits the state, the more the later."""
    pairs = some_encounters(seed)
    fits = pairs.type == pairs.state
    return PairObservations(pairs, (fits & (np.random.default_rng([seed, 1]).random(SIZE) < pairs.position)).astype(np.float64))


def encounter_parts(pairs: JudgedInMatches) -> list[JudgedInMatches]:
    """Three batches, one of them empty."""
    columns = [getattr(pairs, one.name) for one in fields(pairs)]
    return [JudgedInMatches(*(column[cut] for column in columns)) for cut in (slice(0, 17), slice(17, 17), slice(17, None))]


def some_tuples(seed: int) -> JudgedTuples:
    """Runs of about five tuples that meet, of which some had been dropped before."""
    chance = np.random.default_rng(seed)
    length = chance.integers(1, 11, 2 * SIZE)
    end, run = np.cumsum(length), np.cumsum(chance.random(2 * SIZE) < 0.2)
    here = np.sort(chance.permutation(2 * SIZE)[:SIZE])
    return JudgedTuples(
        identity=identities(np.full(SIZE, seed), here),
        run=run[here],
        start=(end - length)[here],
        end=end[here],
        run_length=np.bincount(run, length)[run[here]].astype(np.int64),
    )


CASES: dict[str, Case] = {
    "events": Case(some_events, event_observations, event_parts),
    "events per window": Case(some_pairs, window_observations, pair_parts),
    "partial matches": Case(some_matches, match_observations),
    "events per partial match": Case(some_encounters, encounter_observations, encounter_parts),
    "tuples": Case(some_tuples, lambda seed: None),
}


def arrays_of(record: Any) -> list[np.ndarray]:
    """All arrays of a record and of the records in it."""
    if isinstance(record, np.ndarray):
        return [record]
    return [array for one in fields(record) for array in arrays_of(getattr(record, one.name))] if is_dataclass(record) else []


def locked(record: Any) -> Any:
    """The same record with arrays that cannot be written."""
    if isinstance(record, np.ndarray):
        array = record.copy()
        array.flags.writeable = False
        return array
    return replace(record, **{one.name: locked(getattr(record, one.name)) for one in fields(record)}) if is_dataclass(record) else record


def emptied(record: Any) -> Any:
    """The same record without candidates."""
    if isinstance(record, np.ndarray):
        return record[..., :0]
    return replace(record, **{one.name: emptied(getattr(record, one.name)) for one in fields(record)}) if is_dataclass(record) else record
