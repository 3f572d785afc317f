"""Twice the capacity with the shedder `random` and a bound of 2 s: does the application come back below its bound?

    python -m ops.bench.overload [--seconds N] [--json FILE]

First the capacity is measured: catch-up over quotes, with a query that is dear in matching (about 60 µs per event), as shedding saves neither the
source nor the hand-over. Then quotes arrive at 0.4 of the capacity, at twice the capacity, and at 0.4 again; printed are, per 5 s, the latency of
composite events (broker times), the drop ratio, and the batches. Event times lie a millisecond apart whatever the rate of sending is, so windows
hold equally many events throughout and the capacity is one figure.
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

from app.control.batch_log import DIRECTIVE, BatchLog
from app.local.embedded import embedded_services
from app.local.sending import at_rate
from app.pipeline.session import start_session
from app.storage.open import open_store
from ops.bench.pipeline import application, apply_topics, batches_of, bench_settings, per_second, send, timed_composites

QUERY = """
name: dear
event: SEQ(Quote a, Quote b, Quote c)
where: "[symbol] AND b.volume >= 3 * a.volume AND c.volume >= 3 * b.volume AND c.price >= 1.02 * a.price AND c.volume >= 100 * a.volume"
within: 12 s
return: {symbol: c.symbol, low: a.price, high: c.price}
"""
BOUND_MS = 2000
BOUNDED = QUERY + "shedding: {shedder: random, latency_bound: 2 s}\n"
SHARES = (0.4, 2.0, 0.4)
"""Of the capacity, one after the other."""
CAPACITY_BATCH, CAPACITY_BATCHES = 20_000, 10
STEP_S = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=45, help="of each of the three phases")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, embedded_services() as services:
        folder = Path(name)
        (folder / "free.yaml").write_text(QUERY)
        (folder / "bounded.yaml").write_text(BOUNDED)
        spark = start_session(bench_settings(folder, services, "none"))
        settings = bench_settings(folder, services, "capacity", queries=folder / "free.yaml", per_trigger=CAPACITY_BATCH)
        apply_topics(settings)
        send(settings, CAPACITY_BATCH * CAPACITY_BATCHES)
        with application(spark, settings, available_now=True) as query:
            query.awaitTermination()
            capacity = per_second(batches_of(query)[2:])
        print(f"capacity {capacity:,.0f} events/s", flush=True)
        figures = overloaded(spark, services, folder, capacity, chosen.seconds)
        spark.stop()
    print(json.dumps(figures))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


def overloaded(spark: Any, services: Any, folder: Path, capacity: float, seconds: int) -> dict[str, Any]:
    settings = bench_settings(folder, services, "overload", queries=folder / "bounded.yaml", watchdog=True)
    apply_topics(settings)
    began_ms, sent = int(time.time() * 1000), 0
    rates = [round(capacity * share) for share in SHARES]
    starts: list[float] = []
    asked: dict[int, float] = {}
    checkpoint = settings.checkpoint.uri

    def produce() -> None:
        nonlocal sent
        for rate in (rates[0], *rates):  # the first time to warm up
            starts.append(time.time() * 1000)
            send(settings, rate * seconds, at_rate(rate), start_ms=began_ms + sent)
            sent += rate * seconds

    with application(spark, settings, available_now=False) as query:
        producer = threading.Thread(target=produce)
        producer.start()
        while producer.is_alive():
            producer.join(STEP_S)
            asked.update(directives(checkpoint))  # the log keeps the last hundred batches
        time.sleep(5)
        asked.update(directives(checkpoint))
        batches = batches_of(query)
    found = timed_composites(settings, "overload", "dear")
    rows = []
    for start_ms, rate in zip(starts[1:], rates, strict=True):
        for second in range(0, seconds, STEP_S):
            begin, end = start_ms + 1000 * second, start_ms + 1000 * (second + STEP_S)
            own = found[(found[:, 0] >= begin) & (found[:, 0] < end), 1]
            ratios = [ratio for at, ratio in asked.items() if begin <= at < end]
            rows.append(
                {
                    "rate": rate,
                    "second": second,
                    "composites": len(own),
                    "p50_ms": round(float(np.median(own))) if len(own) else None,
                    "p95_ms": round(float(np.percentile(own, 95))) if len(own) else None,
                    "batches": len(ratios),
                    "drop_ratio": round(statistics.mean(ratios), 3) if ratios else None,
                }
            )
            print(rows[-1], flush=True)
    return {"capacity_per_s": capacity, "last_batch": batches[-1]["batchId"], "rows": rows, **verdict(rows, rates)}


def verdict(rows: list[dict[str, Any]], rates: list[int]) -> dict[str, Any]:
    """What was to be shown: back below the bound under overload, and after how long; nothing shed without."""
    heavy = [row for row in rows if row["rate"] == max(rates)]
    above = [row["second"] for row in heavy if row["p95_ms"] is not None and row["p95_ms"] > BOUND_MS]
    before = rows[: len(rows) // 3]
    return {
        "below_bound_after_s": max(above, default=-STEP_S) + STEP_S,
        "overload_p95_at_end_ms": heavy[-1]["p95_ms"],
        "shed_before_overload": max((row["drop_ratio"] or 0.0) for row in before),
        "shed_at_end": rows[-1]["drop_ratio"],
    }


def directives(checkpoint: str) -> list[tuple[int, float]]:
    """When each directive was decided, and the ratio it asked for."""
    log = BatchLog(open_store(checkpoint))
    logged = [log.logged(batch) for batch, kind in log.logged_files() if kind == DIRECTIVE]
    return [(one.decided_at_ms, one.drop_ratio("dear")) for one in logged if one is not None]


if __name__ == "__main__":
    main()
