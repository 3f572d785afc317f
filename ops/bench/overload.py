"""Twice the capacity with the shedder `random` and a bound of 2 s: does the application come back below its bound?

    python -m ops.bench.overload [--seconds N] [--json FILE]

First the capacity of a query with dear matching is measured (catch-up over quotes whose event times run as fast as they will be sent).
Then quotes arrive at half the capacity, at twice the capacity, and at half again; printed are, per 5 s, the latency of composite events
(broker times), the drop ratio and the share of events shed, from the application's own reports.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from app.local.embedded import embedded_services
from app.local.sending import at_rate
from app.pipeline.session import start_session
from ops.bench.pipeline import application, apply_topics, batches_of, bench_settings, per_second, send, timed_composites

QUERY = """
name: dear
event: SEQ(Quote a, Quote b, Quote c)
where: "[symbol] AND c.price >= 1.02 * a.price AND c.volume >= 2 * a.volume"
within: 20 s
return: {symbol: c.symbol, low: a.price, high: c.price}
"""
BOUNDED = QUERY + "shedding: {shedder: random, latency_bound: 2 s}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="of each of the three phases")
    parser.add_argument("--assumed", type=int, default=20_000, help="events per second of event time while capacity is measured")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, embedded_services() as services:
        folder = Path(name)
        (folder / "free.yaml").write_text(QUERY)
        (folder / "bounded.yaml").write_text(BOUNDED)
        spark = start_session(bench_settings(folder, services, "none"))
        settings = bench_settings(folder, services, "capacity", queries=folder / "free.yaml", per_trigger=chosen.assumed)
        apply_topics(settings)
        send(settings, 12 * chosen.assumed, rate=chosen.assumed)
        with application(spark, settings, available_now=True) as query:
            query.awaitTermination()
            capacity = per_second(batches_of(query))
        print(f"capacity {capacity:,.0f} events/s", flush=True)
        figures = overloaded(spark, services, folder, capacity, chosen.seconds)
        spark.stop()
    print(json.dumps(figures))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


def overloaded(spark: Any, services: Any, folder: Path, capacity: float, seconds: int) -> dict[str, Any]:
    settings = bench_settings(folder, services, "overload", queries=folder / "bounded.yaml", watchdog=True)
    apply_topics(settings)
    send(settings, 1000)
    rates = [round(capacity * share) for share in (0.5, 2.0, 0.5)]
    started_ms = time.time() * 1000

    def produce() -> None:
        for rate in rates:
            send(settings, rate * seconds, at_rate(rate), rate)

    with application(spark, settings, available_now=False) as query:
        producer = threading.Thread(target=produce)
        producer.start()
        producer.join()
        time.sleep(5)
        batches = batches_of(query)
    found = timed_composites(settings, "overload", "dear")
    ratios = directives(Path(settings.checkpoint.path) / "directives")
    rows = []
    for start in range(0, 3 * seconds, 5):
        begin = started_ms + 1000 * start
        own = found[(found[:, 0] >= begin) & (found[:, 0] < begin + 5000), 1]
        asked = [ratio for at, ratio in ratios if begin <= at < begin + 5000]
        rows.append(
            {
                "second": start,
                "rate": rates[start // seconds],
                "composites": len(own),
                "p50_ms": round(float(np.median(own))) if len(own) else None,
                "p95_ms": round(float(np.percentile(own, 95))) if len(own) else None,
                "drop_ratio": round(statistics.mean(asked), 3) if asked else None,
            }
        )
        print(rows[-1], flush=True)
    return {"capacity_per_s": capacity, "batches": len(batches), "rows": rows}


def directives(folder: Path) -> list[tuple[int, float]]:
    """When each directive was decided, and the ratio it asked for."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        plain = json.loads(file.read_bytes().split(b"\n")[0])["frozen"]["directive"]
        found.append((plain["decided_at_ms"], plain["shedding"].get("dear", {}).get("drop_ratio", 0.0)))
    return found


if __name__ == "__main__":
    main()
