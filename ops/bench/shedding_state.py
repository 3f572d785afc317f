"""What a shedder of state costs: ns per candidate, CPU time on one core, best of three. Run:

    python -m ops.bench.shedding_state [--size N] [--json FILE]

Partial matches and pairs: the mask of one batch, utilities, ties and choice included. Tuples: per arrival into full memory under a sliding window of four times
its size, beside the same decisions by a scan over all of memory (compiled, too), as the paper's algorithm 1 has it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit

from shedding.candidates import JudgedInMatches, JudgedMatches
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import MatchObservations, PairObservations
from shedding.registry import method
from shedding.tuples.cals import TupleModel
from shedding.tuples.intervals import Intervals
from shedding.tuples.reservoir import Bounds, Reservoir

MEMORIES = (100, 1_000, 10_000, 100_000)
COALESCING = 0.7
"""Probability that the next tuple has the value of the one before."""


def best_ns(act: Callable[[], object], count: int, repeats: int = 3) -> float:
    """ns per candidate, the best of the repeats."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        act()
        seconds.append(time.process_time() - begin)
    return min(seconds) / count * 1e9


def matches(count: int, chance: np.random.Generator) -> JudgedMatches:
    """Of two queries of ten states, in windows of 10,000 events."""
    query, state = chance.integers(0, 2, count).astype(np.int32), chance.integers(0, 9, count).astype(np.int32)
    identity, remaining = identities(np.zeros(count, np.int64), np.arange(count)), np.floor(chance.random(count) * 10_000)
    return JudgedMatches(identity, query, state, remaining, values=chance.random((2, count)))


def pairs(count: int, chance: np.random.Generator) -> JudgedInMatches:
    """Of 20 types and ten states."""
    types, states = chance.integers(0, 20, count).astype(np.int32), chance.integers(0, 10, count).astype(np.int32)
    return JudgedInMatches(
        identities(np.zeros(count, np.int64), np.arange(count)), np.zeros(count, np.int32), types, states, chance.random(count)
    )


def match_costs(size: int) -> dict[str, float]:
    """ns per partial match, or pair, at a drop ratio of 0.3; batches of 1,000 and of ``size``."""
    chance, costs = np.random.default_rng(1), {}
    some, met = matches(50_000, chance), pairs(50_000, chance)
    after = (some.state + (chance.random(len(some)) < 1.55e-3)).astype(np.int32)
    queries = np.array([10, 10], np.int32), np.ones(2), np.array([1e4, 1e4])
    gain = (chance.random(len(some)) < some.values[0]).astype(np.float64)
    steps = MatchObservations(some.query, some.state, after, np.full(len(some), 1e-7), *queries, some, gain, 1e-7 * some.remaining)
    use = ((met.type == met.state) & (chance.random(len(met)) < met.position)).astype(np.float64)
    lessons = {"pspice": steps, "pspice-minus": steps, "stateful": steps, "pm-random": None, "hspice": PairObservations(met, use)}
    for name, lesson in lessons.items():
        gate = method(name).train(lesson, Training(7)).gate(0.3)
        for count in (1_000, size):
            batch = pairs(count, chance) if name == "hspice" else matches(count, chance)
            repeats = max(1, 100_000 // count)
            costs[f"{name}, {count:,} at once"] = best_ns(
                lambda gate=gate, batch=batch, n=repeats: [gate.keep(batch) for _ in range(n)], count * repeats
            )
    return costs


def stream(count: int, seed: int = 1) -> Intervals:
    """Runs of tuples that meet, of lengths 1 to 10."""
    chance = np.random.default_rng(seed)
    length = chance.integers(1, 11, count)
    end = np.cumsum(length)
    return Intervals(np.cumsum(chance.random(count) > COALESCING), end - length, end)


@njit
def scan(score, tie, held):
    """The least of all scores, ties by tie: the paper's loop, with the scores already worked out."""
    best = 0
    for k in range(1, held):
        if score[k] < score[best] or (score[k] == score[best] and tie[k] < tie[best]):
            best = k
    return best


@njit
def arrivals_by_scan(extra, length, extent, tie, count):
    """So many arrivals: works every tuple's score out and scans."""
    held, chosen = len(extra), 0
    score = np.empty(held)
    for _ in range(count):
        for k in range(held):
            score[k] = extra[k] + length[k] / extent[k]
        chosen += scan(score, tie, held)
    return chosen


def tuple_costs() -> dict[str, float]:
    """ns per arrival."""
    costs = {}
    for memory in MEMORIES:
        warm, count = 5 * memory, max(50_000, memory)
        tuples = stream(warm + count)
        for name in ("cals", "rand"):
            model = method(name).train(None, Training(7))
            assert isinstance(model, TupleModel)
            ties = model.ties(identities(np.zeros(len(tuples), np.int64), np.arange(len(tuples))))
            seconds = []
            for _ in range(3):
                reservoir = Reservoir(model.score, Bounds(memory, window_tuples=4 * memory))
                reservoir.arrive(tuples.rows(slice(0, warm)), ties[:warm])
                begin = time.process_time()
                reservoir.arrive(tuples.rows(slice(warm, None)), ties[warm:])
                seconds.append(time.process_time() - begin)
            costs[f"{name}, memory {memory:,}"] = min(seconds) / count * 1e9
        chance, scans = np.random.default_rng(2), max(3, 2_000_000 // memory)
        columns = (
            chance.integers(-1, 2, memory),
            chance.integers(1, 11, memory),
            chance.integers(20, 50, memory),
            chance.integers(0, 2**62, memory),
        )
        arrivals_by_scan(*columns, 1)
        costs[f"scan, memory {memory:,}"] = best_ns(lambda columns=columns, scans=scans: arrivals_by_scan(*columns, scans), scans)
    return costs


def main() -> None:
    """Prints one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000, help="partial matches at once")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    costs = {**match_costs(arguments.size), **tuple_costs()}
    for name, cost in costs.items():
        print(f"{name:36}{cost:12.1f} ns per {'arrival' if 'memory' in name else 'candidate'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(costs, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
