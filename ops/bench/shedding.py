"""What a shedder's decision costs: nanoseconds of one core's time per candidate.

    python -m ops.bench.shedding [--events N] [--repeats N] [--only NAME] [--json FILE]

Streams: exponential times between events of each type (DS1 and DS5 of the gSPICE paper), and Zipf-distributed types like stock symbols; one attribute, 1 to 10 evenly, in ranges
of 1. Events of the first three types with a small attribute are of use by chance. Batches of 100,000 events, keeping 60 %. Time is CPU time of the process, the least of the
repeats: the machine is shared, and what others do to the caches is in every other repeat.

Candidates are events, or pairs of an event and a window (250 s every 10 s: 25 pairs per event). Everything that a gate does per batch is in the figure: panes, keys, utilities,
threshold. Training time is for as many events, or pairs.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shedding.candidates import JudgedEvents, JudgedInWindows
from shedding.identity import identities
from shedding.interface import Training
from shedding.observations import EventObservations, WindowObservations
from shedding.panes import Pane, carried
from shedding.registry import METHODS, method
from shedding.windows import time_windows

BATCH = 100_000
SHARE = 0.4
DS1, DS5 = (2.5, 15.0, 40.0), (2.5, 15.0, 40.0, 2.5, 15.0, 40.0)
STOCKS = tuple(0.05 * rank**0.8 for rank in range(1, 501))


@dataclass(frozen=True)
class Scenario:
    """A method on a stream."""

    method: str
    stream: str
    means_s: tuple[float, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.method}, {self.stream}"


SCENARIOS = (
    Scenario("random", "DS1", DS1),
    Scenario("bl", "DS1", DS1),
    Scenario("e-bl", "DS1", DS1),
    Scenario("espice", "DS1", DS1),
    Scenario("espice", "500 symbols", STOCKS, {"bin": 50}),
    Scenario("gspice", "DS1, pane 10", DS1),
    Scenario("gspice", "DS5, pane 10", DS5),
    Scenario("gspice", "500 symbols, pane 50", STOCKS, {"pane": Pane(events=50)}),
    Scenario("gspice", "DS1, pane 30 s", DS1, {"pane": Pane(time_ms=30_000)}),
    Scenario("gspice-tree", "DS1, pane 10", DS1),
    Scenario("gspice-forest", "DS1, pane 10", DS1),
    Scenario("gspice-tree", "DS5, pane 10", DS5),
    Scenario("gspice-forest", "DS5, pane 10", DS5),
    Scenario("gspice-forest", "500 symbols, pane 50", STOCKS, {"pane": Pane(events=50)}),
)


def stream_of(means_s: tuple[float, ...], count: int, seed: int) -> JudgedEvents:
    """Events of types with exponential times between them."""
    chance = np.random.default_rng(seed)
    rates = 1 / np.array(means_s)
    gaps = chance.exponential(1000 / rates.sum(), count)
    types = chance.choice(len(rates), count, p=rates / rates.sum()).astype(np.int32)
    values = chance.integers(1, 11, (1, count)).astype(np.float64)
    return JudgedEvents(identities(np.full(count, seed), np.arange(count)), np.cumsum(gaps).astype(np.int64), types, values)


def observations_of(level: str, events: JudgedEvents) -> Any:
    """Use by chance, more of the rarer of the first three types."""
    likely = np.where((events.type < 3) & (events.values[0] <= 5), np.array([0.1, 0.4, 0.9])[np.minimum(events.type, 2)], 0.0)
    chance = np.random.default_rng(1)
    repetition = np.where(np.arange(events.type.max() + 1) < 3, 1.0, 0.0)
    if level == "events":
        return EventObservations(events, chance.poisson(likely).astype(np.float64), repetition=repetition)
    pairs = time_windows(events, 250_000, 10_000)
    return WindowObservations(pairs, chance.poisson(likely[pairs.event]).astype(np.float64), repetition=repetition)


def batches_of(level: str, events: JudgedEvents, pane: Pane) -> list[Any]:
    """The stream in batches, each with what it must know of the earlier ones."""
    parts, before = [], events.before
    for start in range(0, len(events), BATCH):
        cut = slice(start, start + BATCH)
        part = JudgedEvents(events.identity[cut], events.time[cut], events.type[cut], events.values[:, cut], before)
        before = carried(before, part, [pane])
        parts.append(part)
    return parts if level == "events" else [_pairs(part) for part in parts]


def _pairs(events: JudgedEvents) -> JudgedInWindows:
    return time_windows(events, 250_000, 10_000)


def measure(scenario: Scenario, count: int, repeats: int) -> dict[str, Any]:
    """Least time per candidate, and what the model is like."""
    level = METHODS[scenario.method].level
    size = count if level == "events" else count // 10
    observations = observations_of(level, stream_of(scenario.means_s, size, 1))
    begin = time.process_time()
    model = method(scenario.method, **scenario.settings).train(observations, Training(seed=7))
    trained_s = time.process_time() - begin
    gate = model.gate(SHARE)
    batches = batches_of(level, stream_of(scenario.means_s, size, 2), scenario.settings.get("pane", Pane(events=10)))
    gate.keep(batches[0])
    times, kept = [], 0
    for _ in range(repeats):
        begin = time.process_time()
        kept = sum(int(gate.keep(part).sum()) for part in batches)
        times.append(time.process_time() - begin)
    candidates = sum(len(part) for part in batches)
    return {
        "candidates": candidates,
        "ns_per_candidate": round(min(times) / candidates * 1e9, 1),
        "worst_ns": round(max(times) / candidates * 1e9, 1),
        "dropped": round(1 - kept / candidates, 3),
        "train_s": round(trained_s, 2),
        "model_mb": round(sum(array.nbytes for array in model.arrays().values()) / 1e6, 2),
        "unseen": round(getattr(model, "unseen", 0.0), 3),
    }


def main() -> None:
    """Prints one line per scenario."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for scenario in SCENARIOS:
        if arguments.only is None or arguments.only in scenario.name:
            one = results[scenario.name] = measure(scenario, arguments.events, arguments.repeats)
            print(
                f"{scenario.name:36} {one['ns_per_candidate']:7.1f} ns (to {one['worst_ns']}), dropped {one['dropped']:.3f}; "
                f"trained in {one['train_s']} s, {one['model_mb']} MB, {one['unseen']:.3f} unseen"
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
