"""From the start of the application's process to batches that keep up, with events coming in all the while.

    python -m ops.bench.start [--rate 10000] [--before 5] [--seconds 60] [--busy] [--show-log] [--json FILE]

A sender has written ``rate`` events per second for ``before`` seconds when ``python -m app run`` is started on a topic that it has never read; it goes on
until the end. Told are: when the first batch was done; when the first batch was done whose oldest event was younger than a second by the broker's clock;
the longest time between two batches' ends after the first; and by decile of the run how long batches took and how old their oldest events were.

``--busy`` keeps one core busy with another process.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.bootstrap.class_archive import make_class_archive
from app.config.settings import Settings
from app.control.messages.batch_log import BatchLog
from app.local.application import start_application
from app.local.embedded import embedded_services
from app.storage.open import open_store
from ops.bench.pipeline import apply_topics, bench_settings, one_core_busy, send_paced

YOUNG_S = 1.0
DECILES = 10


@dataclass(frozen=True, slots=True)
class Done:
    """A batch, in seconds since the start of the process.

    Attributes:
        at_s: when its totals were written.
        age_s: how old its oldest event was then.
        events: of it.
    """

    at_s: float
    age_s: float
    events: int


def watched(settings: Settings, started_s: float, seconds: float) -> list[Done]:
    """All batches of the run; their totals are read while they are there."""
    done: dict[int, Done] = {}
    folder = Path(settings.checkpoint.path) / "batches"
    while time.time() - started_s < seconds:
        time.sleep(0.5)
        if not folder.exists():
            continue
        log = BatchLog(open_store(settings.checkpoint.uri))
        for path in folder.glob("*-totals.bin"):
            batch = int(path.name.split("-")[0])
            if batch not in done and (totals := log.totals(batch)) is not None:
                at = path.stat().st_mtime
                oldest = min((one.oldest_broker_ms for one in totals.sources.values() if one.oldest_broker_ms), default=at * 1000)
                done[batch] = Done(at - started_s, at - oldest / 1000, sum(one.events for one in totals.sources.values()))
    return [done[batch] for batch in sorted(done)]


def figures_of(done: list[Done]) -> dict[str, Any]:
    """What the module's first lines promise."""
    young = [one.at_s for one in done if one.age_s < YOUNG_S]
    between = [after.at_s - before.at_s for before, after in itertools.pairwise(done)]
    parts = [done[k * len(done) // DECILES : (k + 1) * len(done) // DECILES] for k in range(DECILES)]
    return {
        "first_batch_s": round(done[0].at_s, 1),
        "first_young_batch_s": round(young[0], 1) if young else None,
        "longest_after_first_s": round(max(between, default=0.0), 2),
        "batches": len(done),
        "deciles": [
            {
                "until_s": round(part[-1].at_s, 1),
                "median_age_s": round(statistics.median(one.age_s for one in part), 2),
                "batches": len(part),
            }
            for part in parts
            if part
        ],
    }


def measured(rate: int, before: float, seconds: float, *, busy: bool, show_log: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, embedded_services() as services, ExitStack() as cleanup:
        settings = bench_settings(Path(folder), services, "start")
        apply_topics(settings)
        sender = threading.Thread(target=send_paced, args=(settings, rate, before + seconds), daemon=True)
        sender.start()
        if busy:
            cleanup.enter_context(one_core_busy())
        time.sleep(before)
        (file,) = (
            path
            for path in Path(folder).glob("settings-*.yaml")
            if yaml.safe_load(path.read_text())["checkpoint"]["path"] == settings.checkpoint.path
        )
        started_s = time.time()
        process = start_application(file, Path(folder) / "application.log")
        cleanup.callback(process.wait)
        cleanup.callback(process.send_signal, signal.SIGTERM)
        done = watched(settings, started_s, seconds)
        if not done or show_log:
            print((Path(folder) / "application.log").read_text(), file=sys.stderr)
        if not done:
            raise SystemExit("no batch was done")
        return figures_of(done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--before", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--show-log", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    make_class_archive()  # else the application makes it beside what is measured
    figures = measured(chosen.rate, chosen.before, chosen.seconds, busy=chosen.busy, show_log=chosen.show_log)
    for name, value in figures.items():
        print(name, *([value] if not isinstance(value, list) else ["", *map(str, value)]), sep="\n  " if isinstance(value, list) else " ")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
