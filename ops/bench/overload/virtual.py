"""The watchdog in virtual time, where batches are held up as those of recorded runs were, or about so.

    python -m ops.bench.overload --workload engine --shedder gspice --beliefs FOLDER …     # minutes on a real machine; a file per run
    python -m ops.bench.overload.virtual FOLDER/*.jsonl [--seeds 4]                        # seconds per seed, whatever else the machine does
    python -m ops.bench.overload.virtual                                                   # the same without a recording: see `made_up`

The rates of `ops.bench.overload`, a minute each, a query with a bound of a second; its work goes flat with what is kept, in proportion to it, or with its square. Printed: minutes whose p99 is above the bound, the ratio's
deviation from the eleventh second on, and the share of all events that is lost. A law that is to be changed is run before and after.
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
FIXED_MS = 170.0
PER_EVENT_MS = 0.03
AT_A_STRETCH = 60
"""Surprises that are taken one after the other, on average: how much longer a batch takes goes along with how much the one before did."""
BEND = 0.9
"""Of the events kept: above, `gspice`'s work is steep, below it is flat."""
WORK: Mapping[str, Callable[[float], float]] = {
    "flat": lambda kept: 0.12 + 0.5 * kept if kept < BEND else 0.57 + 4.3 * (kept - BEND),
    "square": lambda kept: kept**2,
    "proportional": lambda kept: kept,
}
"""Share of the events kept → share of the work."""


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


def minutes(work: Callable[[float], float], recorded: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Of each rate's minute its p99 (ms), the mean of the ratios, their deviation, the share of events lost; float64 (rates, 4)."""
    plant = Replayed(lambda _: 0.0, {"q": PER_EVENT_MS}, fixed_ms=FIXED_MS, noise=0.0, left=work, seed=seed, recorded=recorded)
    capacity = (1 - FIXED_MS / 1000) / (PER_EVENT_MS + plant.per_consumed_ms + plant.per_shipped_ms)  # of batches of a second, per ms
    phases, began_ms = issue_phases(SHARES, MINUTE_S, burst=False), plant.now
    starts_ms = 1000 * Schedule(phases, 1000 * capacity).seconds
    plant.rate = lambda now: capacity * phases[min(np.searchsorted(starts_ms, now - began_ms, side="right"), len(phases)) - 1].share
    plant.run(a_watchdog(WatchedQuery("q", "random", BOUND_MS, streams=("s",))), until_ms=starts_ms[-1])
    found, batches_ms, events = [], np.array(plant.starts) - began_ms, np.array(plant.lost)
    for phase, begin, end in zip(phases, starts_ms[:-1], starts_ms[1:], strict=True):
        if phase.name:
            ratios, own = plant.asked("q", begin + 1000 * SETTLING_S, end), events[(batches_ms >= begin) & (batches_ms < end)]
            found.append((plant.late(0.99, begin, end), ratios.mean(), ratios.std(), own[:, 1].sum() / own[:, 0].sum()))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m ops.bench.overload.virtual", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("beliefs", nargs="*", type=Path, metavar="FILE", help="of runs with --beliefs; default: surprises that are made up")
    parser.add_argument("--seeds", type=int, default=4)
    chosen = parser.parse_args()
    recorded = surprises(chosen.beliefs) if chosen.beliefs else made_up()
    print(f"{len(recorded):,} {'recorded' if chosen.beliefs else 'made up'} batches, deviation {recorded.std():.3f}")
    for name, work in WORK.items():
        p99, ratio, deviation, lost = np.concatenate([minutes(work, recorded, seed) for seed in range(chosen.seeds)]).T
        print(
            f"{name:12} late {np.count_nonzero(p99 > BOUND_MS)} of {len(p99)}, p99 {p99.mean():.0f} (most {p99.max():.0f}) ms, ratio {ratio.mean():.3f} ± {deviation.mean():.3f} "
            f"(below 0.05: {np.count_nonzero(deviation < 0.05)}), lost {lost.mean():.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
