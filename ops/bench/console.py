"""What the console costs the driver: remembering a batch, and making a page.

python -m ops.bench.console [--queries 1000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.config.settings import Settings
from app.console.figures import Figures
from app.console.recent import Recent
from app.console.site import Site
from app.control.messages.reports import QueryTally
from app.control.plane import ControlPlane
from app.control.running_catalog import RunningCatalog
from app.control.shown.history import SLOT_MS, History, Noted
from app.control.shown.standing import standings
from app.delivery.tail import Tails
from app.query.plan import Catalog, Item, Plan, Shedding, Within

BATCH_MS = 500


def plan(number: int) -> Plan:
    items = (Item(0, "a", ("A",)), Item(1, "b", ("B",)))
    known = {"labels": (), "weight": 1.0, "streams": ("s",), "items": items, "equivalence": (), "joins": (), "returns": (), "columns": ()}
    return Plan(
        name=f"query-{number}", version=1, title="", within=Within(1000), shedding=Shedding("random", 1000), fingerprint="f", **known
    )


def least_ms(action: Callable[[], object], times: int) -> float:
    """Processor time, the least of some."""
    found = []
    for _ in range(times):
        began = time.process_time()
        action()
        found.append(1000 * (time.process_time() - began))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    queries = asked.queries
    plans = tuple(plan(number) for number in range(queries))
    tallies = {one.name: QueryTally(one.name, 10, 1, 2, latencies=(0, 0, 2)) for one in plans}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate(
            {"streams": {"s": {"topics": ["t"]}}, "checkpoint": {"path": str(Path(folder))}, "http": {"host": "127.0.0.1", "port": 0}}
        )
        plane = ControlPlane(settings, {})
        plane.open(RunningCatalog(Catalog.of(plans)))
        clock = [1_800_000_000_000]

        def batch(history: History = plane.history) -> None:
            clock[0] += BATCH_MS
            known = lambda: standings(plans, None, plane._quality)  # noqa: E731, SLF001
            history.note(Noted(clock[0], 300.0, 1000, 10, 0, tallies, {}), known)

        slot = [batch] * (SLOT_MS // BATCH_MS)
        remembered = least_ms(lambda: [one() for one in slot], 20) / len(slot)
        figures = Figures(plane, settings, Recent(Tails(dict), lambda _: None), lambda: clock[0])
        site = Site(figures, "bench")

        def page(path: str) -> float:
            def made() -> None:
                site._kept.clear()  # noqa: SLF001
                site.page(path)

            return least_ms(made, 5)

        found = {
            "queries": queries,
            "batch_ms": remembered,
            "overview_ms": page("/"),
            "overview_json_ms": page("/console.json"),
            "queries_ms": least_ms(plane.query_set, 5),
        }
        plane.close()
    print(", ".join(f"{name} {value:.3g}" for name, value in found.items()))
    if asked.json:
        asked.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
