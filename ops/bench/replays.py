"""What `cep replay` does per second, here and in an older checkout, in turn on one core: the same files, the same commands.

    python -m ops.bench.replays [--before CHECKOUT] [--rounds N] [--repeats N] [--only NAME] [--data FOLDER] [--json FILE]

``--before`` names a folder with another commit (``git worktree add FOLDER 159e3e9``); it is run by this environment's Python, and compiles its kernels first.
Figures are million events per second of matching (``--stats``; reading and writing are `ops.bench.files`), the best of ``--repeats`` in every round. Both must find as many matches.
Recordings come from ``--data`` (default ``../shared/data``); without it their rows are left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.bootstrap.places import PROJECT
from app.events.batch import Column, EventBatch
from app.events.types import Kind
from ops.bench.runs import RECORDING, RISING, recording, rising_with_features, ten_steps, uniform, with_features
from ops.bench.selection import KDD, TYPES, four_distinct_ranges, kdd

SEQUENCE = "name: q\nevent: SEQ({0})\nwhere: '[k]'\nwithin: {1}\nreturn: {{k: a.k, first: a.v, last: c.v}}\n"
LONG_S = 3.0
"""The runs of a round end after about so long."""


@dataclass(frozen=True)
class Replay:
    """Queries over a file of events; ``target``: what was promised, in M events/s."""

    name: str
    events: str
    queries: tuple[str, ...]
    target: float | None = None


def replays(recordings: Recordings) -> list[Replay]:
    """All of them that the recordings allow."""
    found = [
        Replay("SEQ(A, B, C), 1,000 keys, 10 s", "uniform-1000", (SEQUENCE.format("T0 a, T1 b, T2 c", "10 s"),)),
        Replay("SEQ(A, B, C), 100,000 keys, 1,000 s", "uniform-100000", (SEQUENCE.format("T0 a, T1 b, T2 c", "1000 s"),)),
        Replay("SEQ(A, !(B), C), 1,000 keys, 10 s", "uniform-1000", (SEQUENCE.format("T0 a, !(T1 b), T2 c", "10 s"),)),
        Replay("SEQ(A, B, C), 20 keys, 41 matches per event", "uniform-20", (SEQUENCE.format("T0 a, T1 b, T2 c", "16300 ms"),), 1.5),
        *(Replay(f"uniform, {one.name}", "uniform-1000", (one.query,)) for one in with_features()),
    ]
    if recordings.quotes:
        found += recordings.of_quotes()
    if recordings.integers:
        found += [
            Replay("100 conjunctions, KDD99-int", "integers", recordings.conjunctions(100), 5),
            Replay("1,000 conjunctions, KDD99-int", "integers-short", recordings.conjunctions(1_000), 0.8),
        ]
    return found


class Recordings:
    """What of the recordings is there, and the queries that are made from them."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.quotes = (data / RECORDING).is_file()
        self.integers = (data / KDD).is_file()

    def of_quotes(self) -> list[Replay]:
        """Rising prices, what may be asked of them besides, and ten steps."""
        rising = RISING.format("skip-till-next-match")
        windows = ten_steps(recording(self._data)[1])
        return [
            Replay("rising prices, skip-till-next-match", "quotes", (rising,), 3),
            Replay("rising prices, partition-contiguity", "quotes", (RISING.format("partition-contiguity"),), 7),
            Replay("rising prices, after: skip-past-last-event", "quotes", (rising + "after: skip-past-last-event\n",)),
            Replay("rising prices, emit: longest", "quotes", (rising + "after: skip-past-last-event\nemit: longest\n",)),
            Replay("ten steps in windows", "quotes", (windows,), 20),
            Replay("ten steps in windows, after: skip-past-last-event", "quotes", (windows + "after: skip-past-last-event\n",)),
            *(Replay(one.name, "quotes", (one.query,)) for one in rising_with_features()),
        ]

    def conjunctions(self, count: int) -> tuple[str, ...]:
        """Queries of one item with ranges of four attributes (as in `ops.bench.selection`)."""
        plans = four_distinct_ranges(count, kdd(KDD_EVENTS, self._data))
        texts = []
        for number, plan in enumerate(plans):
            tests = [
                f"r.{test.attribute} >= {test.values[0]!r} AND r.{test.attribute} <= {test.values[1]!r}" for test in plan.items[0].tests
            ]
            texts.append(f'name: q{number}\nevent: {TYPES[0]} r\nwhere: "{" AND ".join(tests)}"\nreturn: {{at: r.time}}\n')
        return tuple(texts)

    def batch(self, name: str) -> EventBatch:
        """The events of a file."""
        kind, _, part = name.partition("-")
        if kind == "uniform":
            return uniform(int(part), UNIFORM_EVENTS[int(part)])[0]
        return recording(self._data)[0] if kind == "quotes" else kdd(SHORT if part else KDD_EVENTS, self._data)


KDD_EVENTS = 805_050
SHORT = 100_000
"""1,000 conjunctions find 1.2 million composite events in them."""
UNIFORM_EVENTS = {1_000: 1_000_000, 100_000: 2_000_000, 20: 150_000}


class Checkout:
    """One commit, and what it does."""

    def __init__(self, folder: Path, core: int) -> None:
        self._folder = folder
        self._core = core

    def once(self, queries: Path, events: Path, repeats: int) -> tuple[float, int, float]:
        """M events/s of the best of some runs, matches, and seconds of the first one."""
        with tempfile.TemporaryDirectory() as folder:
            stats = Path(folder) / "stats.json"
            command = [sys.executable, "-m", "app", "replay", "--queries", str(queries), "--events", str(events)]
            command += ["--repeat", str(repeats), "--stats", str(stats), "--out", f"{folder}/out.jsonl"]
            environment = {**os.environ, "CEP_BOOTSTRAP": "off", "PYTHONPATH": str(self._folder)}
            done = subprocess.run(
                ["taskset", "-c", str(self._core), *command],
                cwd=self._folder,
                env=environment,
                check=False,
                stderr=subprocess.PIPE,
                text=True,
            )
            if done.returncode:
                raise SystemExit(f"{self._folder}: {done.stderr[-2000:]}")
            told = json.loads(stats.read_text())
            return told["events"] / min(told["match_s"]) / 1e6, told["matches"], told["match_s"][0]


def measure(replay: Replay, events: Path, here: Checkout, before: Checkout | None, *, rounds: int, repeats: int) -> dict[str, Any]:
    """Rates of both sides, round by round."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(replay.queries):
            (Path(folder) / f"q{number}.yaml").write_text(text)
        rates: dict[str, list[float]] = {"before": [], "now": []}
        often = dict.fromkeys(rates, 1)
        for number in range(1 + rounds):
            found = set()
            for side, checkout in (("before", before), ("now", here)):
                if checkout is not None:
                    rate, matches, seconds = checkout.once(Path(folder), events, often[side])
                    if number == 0:  # what takes long is not repeated as often
                        often[side] = max(1, min(repeats, int(LONG_S / seconds)))
                        continue
                    rates[side].append(round(rate, 3))
                    found.add(matches)
            if len(found) > 1:
                raise SystemExit(f"{replay.name}: {found} matches")
    ratios = [now / then for now, then in zip(rates["now"], rates["before"], strict=False)]
    ratio = round(statistics.median(ratios), 2) if ratios else None
    return {"events": replay.events, "target": replay.target, **rates, "ratio": ratio}


def line_of(name: str, figures: dict[str, Any]) -> str:
    """A row of the README's table."""

    def span(rates: list[float]) -> str:
        low, high = (f"{rate:.3g}" for rate in (min(rates), max(rates)))
        return low if low == high else f"{low}–{high}"

    cells = [span(figures[side]) if figures[side] else "–" for side in ("before", "now")]
    return f"| {name} | {cells[0]} | {cells[1]} | {figures['ratio'] or '–'} | {figures['target'] or '–'} |"


def written(folder: Path, batch_of: Callable[[str], EventBatch], name: str) -> Path:
    """The file of events, made when it is first asked for."""
    path = folder / f"{name}.csv"
    if not path.exists():
        batch = batch_of(name)
        columns = [batch.type, Column(Kind.TIME, batch.time), *batch.columns.values()]
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["type", "time", *batch.columns])
            writer.writerows(zip(*map(values_of, columns), strict=True))
    return path


def values_of(column: Column | None) -> list[Any]:
    """The values of a column whose cells are all present."""
    assert column is not None, "every event has a type"
    if column.dictionary is None:
        return column.values.tolist()  # type: ignore[no-any-return]
    names = [entry.decode() for entry in column.dictionary.entries()]
    return [names[code] for code in column.values.tolist()]


def main() -> None:
    """Prints a row per query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    recordings = Recordings(arguments.data)
    here = Checkout(PROJECT, arguments.core)
    before = Checkout(arguments.before.resolve(), arguments.core) if arguments.before else None
    figures = {}
    print("| query | before | now | ratio | target |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for replay in replays(recordings):
            if arguments.only in replay.name:
                events = written(Path(folder), recordings.batch, replay.events)
                figures[replay.name] = measure(replay, events, here, before, rounds=arguments.rounds, repeats=arguments.repeats)
                print(line_of(replay.name, figures[replay.name]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
