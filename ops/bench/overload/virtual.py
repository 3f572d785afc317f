"""The watchdog in virtual time, where batches are held up as those of recorded runs were, or about so.

    python -m ops.bench.overload --workload engine --shedder gspice --beliefs FOLDER …     # minutes on a real machine; a file per run
    python -m ops.bench.overload.virtual FOLDER/*.jsonl [--seeds 4]                        # seconds per seed, whatever else the machine does
    python -m ops.bench.overload.virtual                                                   # the same without a recording: see `made_up`

The rates of `ops.bench.overload`, a minute each, a query with a bound of a second; its work goes flat with what is kept, in proportion to it, or with its square. Printed: minutes whose p99 is above the bound, the ratio's
deviation from the eleventh second on, and the share of all matches that is found: of who chooses well nearly all, until the ratio is beyond a knee. A law that is to be changed is run before and after.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.control.law.watched import WatchedQuery
from ops.bench.overload.judged import SETTLING_S
from ops.bench.overload.load import SHARES, Schedule, issue_phases
from tests.unit.control_plant import Plant, a_watchdog

MINUTE_S = 60
BOUND_MS = 1000
FIXED_MS = 160.0
PER_RECORD_MS = 0.0025
"""Read, decoded and looked at, whatever becomes of it."""
PER_EVENT_MS = 0.0345
"""If all are kept."""
AT_A_STRETCH = 60
"""Surprises that are taken one after the other, on average: how much longer a batch takes goes along with how much the one before did."""
KEPT = (0.0, 0.01, 0.03, 0.045, 0.06, 0.09, 0.11, 0.15, 0.25, 0.5, 0.8, 0.9, 1.0)
FLAT = (0.0, 0.02, 0.075, 0.17, 0.22, 0.27, 0.32, 0.36, 0.41, 0.54, 0.65, 0.7, 1.0)
"""Work of `gspice` on *engine* by what it keeps (fifty-first and fifty-second session, 3,000 batches): what costs little goes first."""
KNEE_KEPT = (0.0, 0.025, 0.06, 0.1, 0.15, 0.2, 0.4, 1.0)
KNEE = (0.0, 0.0, 0.15, 0.5, 0.85, 0.92, 0.97, 1.0)
"""And what it finds, of all matches."""
JOINED = 3
"""Of three events, chosen at random."""


@dataclass(frozen=True, slots=True)
class Shedder:
    """What comes of a share of the events that is kept.

    Attributes:
        work: share of the work.
        found: share of the matches.
    """

    work: Callable[[float], float]
    found: Callable[[NDArray[np.float64]], NDArray[np.float64]]


SHEDDERS: Mapping[str, Shedder] = {
    "flat": Shedder(lambda kept: float(np.interp(kept, KEPT, FLAT)), lambda kept: np.interp(kept, KNEE_KEPT, KNEE)),
    "square": Shedder(lambda kept: kept**2, lambda kept: kept**JOINED),
    "proportional": Shedder(lambda kept: kept, lambda kept: kept**JOINED),
}


def surprises(files: Sequence[Path]) -> NDArray[np.float64]:
    """How much longer batches took than foreseen while something was shed, as logarithms in their order, float64 (batches,).

    Args:
        files: what `ops.bench.overload.beliefs.noted` wrote.
    """
    found: list[float] = []
    for file in files:
        expected: dict[int, float] = {}
        for line in file.read_text().splitlines():
            told = json.loads(line)
            if "planned" in told:
                expected[told["batch"]] = told["known"]["running"]["expected_ms"] if told["ratios"] else 0.0
            elif expected.get(told["batch"], 0.0) > 0:
                found.append(float(np.log(told["seen"]["duration_ms"] / expected[told["batch"]])))
    return np.array(found)


def made_up(batches: int = 3000, seed: int = 0) -> NDArray[np.float64]:
    """Surprises as those of recorded runs are: a deviation of 0.15, three in ten of which are there for the next batch, and one batch in thirty that stalls for a third of its length or much more, float64 (batches,)."""
    chance = np.random.default_rng(seed)
    scattered = chance.normal(0, 0.13 * np.sqrt(1 - 0.3**2), batches)
    for one in range(1, batches):
        scattered[one] += 0.3 * scattered[one - 1]
    stalls = chance.random(batches) < 0.03
    scattered[stalls] += chance.exponential(0.35, np.count_nonzero(stalls))
    behind = np.roll(stalls, 1) & (chance.random(batches) < 0.3)
    scattered[behind] += chance.exponential(0.25, np.count_nonzero(behind))
    return scattered


@dataclass
class Replayed(Plant):
    """A plant whose whole batches are as much longer as recorded ones were; ``lost``: events (all, those that were shed) by the time of their batch."""

    recorded: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    lost: list[tuple[int, float]] = field(default_factory=list)
    at: int = 0

    def one(self, watchdog: Any) -> None:
        self.at = (
            int(self.chance.integers(len(self.recorded))) if self.chance.random() < 1 / AT_A_STRETCH else (self.at + 1) % len(self.recorded)
        )
        factor = float(np.exp(self.recorded[self.at]))
        self.slow = lambda _: factor
        super().one(watchdog)

    def work(self, consumed: int, asked: Mapping[str, float]) -> Any:
        self.lost.append((consumed, consumed * asked.get("q", 0.0)))
        return super().work(consumed, asked)


def minutes(shedder: Shedder, recorded: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Of each rate's minute its p99 (ms), the mean of the ratios, their deviation, the share of matches found; float64 (rates, 4)."""
    plant = Replayed(
        lambda _: 0.0,
        {"q": PER_EVENT_MS},
        fixed_ms=FIXED_MS,
        per_consumed_ms=PER_RECORD_MS,
        noise=0.0,
        left=shedder.work,
        seed=seed,
        recorded=recorded,
    )
    capacity = (1 - FIXED_MS / 1000) / (PER_EVENT_MS + plant.per_consumed_ms + plant.per_shipped_ms)  # of batches of a second, per ms
    phases, began_ms = issue_phases(SHARES, MINUTE_S, burst=False), plant.now
    starts_ms = 1000 * Schedule(phases, 1000 * capacity).seconds
    plant.rate = lambda now: capacity * phases[min(np.searchsorted(starts_ms, now - began_ms, side="right"), len(phases)) - 1].share
    plant.run(a_watchdog(WatchedQuery("q", "random", BOUND_MS, streams=("s",))), until_ms=starts_ms[-1])
    rows, batches_ms, events = [], np.array(plant.starts) - began_ms, np.array(plant.lost)
    for phase, begin, end in zip(phases, starts_ms[:-1], starts_ms[1:], strict=True):
        if phase.name:
            ratios, own = plant.asked("q", begin + 1000 * SETTLING_S, end), events[(batches_ms >= begin) & (batches_ms < end)]
            found = np.average(shedder.found(1 - own[:, 1] / own[:, 0]), weights=own[:, 0])
            rows.append((plant.late(0.99, begin, end), ratios.mean(), ratios.std(), found))
    return np.array(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m ops.bench.overload.virtual", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("beliefs", nargs="*", type=Path, metavar="FILE", help="of runs with --beliefs; default: surprises that are made up")
    parser.add_argument("--seeds", type=int, default=4)
    chosen = parser.parse_args()
    recorded = surprises(chosen.beliefs) if chosen.beliefs else made_up()
    print(f"{len(recorded):,} {'recorded' if chosen.beliefs else 'made up'} batches, deviation {recorded.std():.3f}")
    for name, shedder in SHEDDERS.items():
        by_rate = np.array([minutes(shedder, recorded, seed) for seed in range(chosen.seeds)])
        p99, ratio, deviation, found = np.concatenate(by_rate).T
        print(
            f"{name:12} late {np.count_nonzero(p99 > BOUND_MS)} of {len(p99)}, p99 {p99.mean():.0f} (most {p99.max():.0f}) ms, ratio {ratio.mean():.3f} ± {deviation.mean():.3f} "
            f"(below 0.05: {np.count_nonzero(deviation < 0.05)}), found {found.mean():.3f}: {', '.join(f'{one:.2f}' for one in by_rate[:, :, 3].mean(axis=0))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
