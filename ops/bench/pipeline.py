"""The whole pipeline on one machine: real broker, real registry, real Spark.

    python -m ops.bench.pipeline catch-up [--quotes N] [--rounds N] [--json FILE]
    python -m ops.bench.pipeline paced [--rates 1000,10000,100000] [--seconds N] [--json FILE]
    python -m ops.bench.pipeline phases [--rates 10000] [--seconds N] [--rounds N] [--busy] [--json FILE]

*catch-up*: quotes in 4 topic partitions are read from the beginning, in turn by Spark's bare Kafka source into nothing and by the whole
application (decode, selection, delivery to owners, matching, state log, output to Kafka); events per second of all batches but the first, and their ratio.

*paced*: quotes arrive at a rate; detection latency is the broker's time of the composite event minus the broker's time of its last
constituent (both topics LogAppendTime), after a warm-up that is left out.

*phases*: where a batch's time goes, in turn with a bare Spark query from Kafka to Kafka at the same rate: medians of Spark's phases, of the driver's within
``addBatch``, and of the tasks' and owners' (added up over all of them, so they may be more than the driver waits).

``--busy`` keeps one core busy with another process all the while.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import yaml
from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.config.settings import Settings, load_settings
from app.control.messages.batch_log import BatchLog
from app.delivery.composite_schema import record_name
from app.delivery.security import client_options, jvm_options
from app.delivery.topics import TopicAdministrator, plan_changes, wanted_topics
from app.events.registry import Registry, RegistrySettings, registry_settings
from app.local.embedded import Embedded, embedded_services
from app.local.generators import generate
from app.local.outlets import outlet_of
from app.local.sending import Due, Sender, at_once, at_rate
from app.pipeline.application import opened
from app.pipeline.assemble import ingested, matched
from app.pipeline.preparation import compile_queries, read_streams
from app.pipeline.session import start_session
from app.pipeline.source import kafka_records
from app.storage.open import open_store

ROOT = Path(__file__).resolve().parents[2]
SURGE = """
name: surge
event: SEQ(Quote a, !(Quote x), Quote b)
where: "[symbol] AND a.volume >= 3800 AND x.volume >= 3800 AND b.volume >= 3800 AND b.price >= 1.01 * a.price"
within: 10 s
return: {symbol: b.symbol, low: a.price, high: b.price}
"""
"""A rise between two neighbouring quotes of large volume; these are 15 % of all, as in the spike that the targets come from."""
WARM_UP_S = 20

__all__ = ["catch_up", "paced"]


def bench_settings(
    folder: Path, services: Embedded, topic: str, *, per_trigger: int = 400_000, queries: Path | None = None, watchdog: bool = False
) -> Settings:
    """One trusted stream of quotes in four topic partitions, and `SURGE`."""
    surge = folder / "surge.yaml"
    surge.write_text(SURGE)
    plain = {
        "kafka": {
            "bootstrap_servers": services.broker.bootstrap_servers,
            "starting_offsets": "earliest",
            "max_offsets_per_trigger": per_trigger,
        },
        "schema_registry": {"url": services.registry.url},
        "streams": {
            "stocks": {
                "topics": [topic],
                "schemas": [str(ROOT / "schemas" / "Quote.avsc")],
                "time": "time",
                "ordered_by": "symbol",
                "partitions": 4,
            }
        },
        "queries": {"paths": [str(queries or surge)]},
        "topics": {"prefix": f"{topic}-out"},
        "checkpoint": {"path": str(folder / f"checkpoint-{uuid.uuid4().hex[:6]}")},
        "http": {"host": "127.0.0.1", "port": 0},
        "watchdog": {"enabled": watchdog},
    }
    file = folder / f"settings-{uuid.uuid4().hex[:6]}.yaml"
    file.write_text(yaml.safe_dump(plain))
    return load_settings(file, {})


def apply_topics(settings: Settings) -> None:
    compiled = compile_queries(settings, read_streams(settings, Registry(registry_settings(settings.schema_registry))))
    wanted = wanted_topics(settings, compiled.catalog)
    administrator = TopicAdministrator(settings)
    administrator.apply(plan_changes(wanted, administrator.existing(topic.name for topic in wanted)))


def send(settings: Settings, events: int, due: Due = at_once, rate: float = 1000.0, start_ms: int | None = None) -> None:
    """Sends quotes whose event times begin now, or at a given moment, and lie ``rate`` per second apart."""
    registry = Registry(RegistrySettings(settings.schema_registry.url))
    outlet = outlet_of("stocks", settings.streams["stocks"], registry)
    with Sender(client_options(settings.kafka), outlet, due) as sender:
        sender.send(generate("stocks", events, seed=1, start_ms=start_ms or int(time.time() * 1000), rate_per_s=rate).batches)


def send_paced(settings: Settings, rate: int, seconds: float) -> None:
    """Sends from a process of its own: in this one the sender would hold the interpreter that the driver works in."""
    sender = get_context("spawn").Process(target=_send_at_rate, args=(settings, rate, seconds))
    sender.start()
    sender.join()


def _send_at_rate(settings: Settings, rate: int, seconds: float) -> None:
    send(settings, int(rate * seconds), at_rate(rate), rate)


@contextmanager
def application(spark: SparkSession, settings: Settings, *, available_now: bool) -> Iterator[StreamingQuery]:
    """The application's query in this process."""
    with opened(spark, settings) as ready:
        records = kafka_records(spark, settings, ready.deployment.topics)
        writer = matched(ingested(records, settings, ready.tasks), settings, ready.batches)
        query = (writer.trigger(availableNow=True) if available_now else writer).start()
        try:
            yield query
        finally:
            query.stop()


def batches_of(query: StreamingQuery) -> list[dict[str, Any]]:
    progress = [p if isinstance(p, dict) else json.loads(p.json) for p in query.recentProgress]
    return [p for p in progress if p["numInputRows"] > 0]


def per_second(batches: list[dict[str, Any]]) -> float:
    """Without the first batch: it warms up workers and kernels."""
    counted = batches[1:]
    return sum(b["numInputRows"] for b in counted) / sum(b["durationMs"]["triggerExecution"] for b in counted) * 1000


def catch_up(spark: SparkSession, services: Embedded, folder: Path, quotes: int, rounds: int) -> dict[str, Any]:
    base = bench_settings(folder, services, "catch")
    apply_topics(base)
    send(base, quotes)
    bare, whole, phases = [], [], []
    for _ in range(rounds):
        options = {"checkpointLocation": str(folder / f"bare-{uuid.uuid4().hex[:6]}")}
        records = kafka_records(spark, base)
        query = records.writeStream.format("noop").options(**options).trigger(availableNow=True).start()
        query.awaitTermination()
        bare.append(per_second(batches_of(query)))
        settings = bench_settings(folder, services, "catch")
        with application(spark, settings, available_now=True) as query:
            query.awaitTermination()
            batches = batches_of(query)
        whole.append(per_second(batches))
        phases.append(
            {name: round(statistics.median(b["durationMs"].get(name, 0) for b in batches[1:])) for name in batches[-1]["durationMs"]}
        )
        print(f"bare {bare[-1]:,.0f}/s  whole {whole[-1]:,.0f}/s  ratio {whole[-1] / bare[-1]:.2f}  {phases[-1]}", flush=True)
    ratios = [w / b for w, b in zip(whole, bare, strict=True)]
    return {
        "quotes": quotes,
        "bare_per_s": bare,
        "whole_per_s": whole,
        "ratio": ratios,
        "ratio_median": statistics.median(ratios),
        "phases_ms": phases,
    }


def paced(spark: SparkSession, services: Embedded, folder: Path, rates: list[int], seconds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for rate in rates:
        settings = bench_settings(folder, services, f"paced{rate}")
        apply_topics(settings)
        send(settings, 1000)
        with application(spark, settings, available_now=False) as query:
            started_ms = time.time() * 1000
            send_paced(settings, rate, seconds + WARM_UP_S)
            time.sleep(3)
            batches = batches_of(query)[-20:]
        found = latencies(settings, f"paced{rate}", started_ms + WARM_UP_S * 1000)
        quantiles = {f"p{q}": round(float(np.percentile(found, q))) for q in (50, 95, 99)} if len(found) else {}
        batch_ms = [b["durationMs"]["triggerExecution"] for b in batches]
        figures[str(rate)] = {"composites": len(found), **quantiles, "batch_median_ms": statistics.median(batch_ms) if batch_ms else None}
        phases = {name: round(statistics.median(b["durationMs"].get(name, 0) for b in batches)) for name in batches[-1]["durationMs"]}
        print(rate, figures[str(rate)], phases, flush=True)
    return figures


def phases(spark: SparkSession, services: Embedded, folder: Path, rate: int, *, seconds: int, rounds: int) -> dict[str, Any]:
    whole, bare, within = [], [], []
    settings = bench_settings(folder, services, "phases")
    apply_topics(settings)
    send(settings, 1000)
    for number in range(rounds):
        settings = bench_settings(folder, services, "phases")
        with application(spark, settings, available_now=False) as query:
            send_paced(settings, rate, seconds)
            whole.append(batches_of(query)[-20:])
        log = BatchLog(open_store(settings.checkpoint.uri))
        within += [log.totals(batch["batchId"]) for batch in whole[-1]]
        writer = kafka_records(spark, settings).select("value").writeStream.format("kafka").option("topic", settings.topics.late)
        options = {**jvm_options(settings.kafka), "checkpointLocation": str(folder / f"bare-{uuid.uuid4().hex[:6]}")}
        query = writer.options(**options).start()
        send_paced(settings, rate, seconds)
        bare.append(batches_of(query)[-20:])
        query.stop()
        print(f"round {number}: whole {duration(whole[-1]):.0f} ms, bare {duration(bare[-1]):.0f} ms", flush=True)
    figures = {
        "rate": rate,
        "batch_ms": [duration(some) for some in whole],
        "bare_batch_ms": [duration(some) for some in bare],
        "ratio": statistics.median(duration(a) / duration(b) for a, b in zip(whole, bare, strict=True)),
        "spark_ms": medians([b["durationMs"] for some in whole for b in some], 1),
        "bare_ms": medians([b["durationMs"] for some in bare for b in some], 1),
        "driver_ms": medians([totals.phases_ns for totals in within], 1e-6),
        "tasks_and_owners_ms": medians([totals.cost_ns for totals in within], 1e-6),
    }
    for title in ("spark_ms", "bare_ms", "driver_ms", "tasks_and_owners_ms"):
        print(title, figures[title], flush=True)
    return figures


def duration(batches: list[dict[str, Any]]) -> float:
    return statistics.median(batch["durationMs"]["triggerExecution"] for batch in batches)


def medians(parts: list[Any], unit: float) -> dict[str, float]:
    names = sorted({name for part in parts for name in part})
    return {name: round(unit * statistics.median(part.get(name, 0) for part in parts), 1) for name in names}


def latencies(settings: Settings, topic: str, after_ms: float) -> np.ndarray:
    """Detection latencies (ms) of composite events whose last constituent arrived after a moment."""
    found = timed_composites(settings, topic, "surge")
    return found[found[:, 0] >= after_ms, 1]


def timed_composites(settings: Settings, topic: str, query: str) -> np.ndarray:
    """Per composite event the broker time of its last constituent, and how much later it was on its own topic, ms."""
    arrived = {(m.partition(), m.offset()): m.timestamp()[1] for m in everything(settings, topic)}
    output = f"{topic}-out.{query}"
    registered = Registry(registry_settings(settings.schema_registry)).latest(f"{output}-cep.{record_name(query)}")
    schema = fastavro.parse_schema(json.loads(registered.text))
    found = []
    for message in everything(settings, output):
        last = fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), schema)["events"][-1]
        at = arrived[last["partition"], last["offset"]]
        found.append((at, message.timestamp()[1] - at))
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def everything(settings: Settings, topic: str) -> Iterator[Message]:
    """All records of a topic, one topic partition after the other."""
    with closing(Consumer({**client_options(settings.kafka), "group.id": "bench", "enable.auto.commit": False})) as consumer:
        for number in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
            end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            consumer.assign([TopicPartition(topic, number, 0)])
            at = 0
            while at < end:
                for message in consumer.consume(min(10_000, end - at), timeout=1):
                    at = message.offset() + 1
                    yield message


@contextmanager
def one_core_busy() -> Iterator[None]:
    """Another process that never rests."""
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        spinning.kill()
        spinning.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["catch-up", "paced", "phases"])
    parser.add_argument("--quotes", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rates", default="1000,10000,100000")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, embedded_services() as services, one_core_busy() if chosen.busy else nullcontext():
        spark = start_session(bench_settings(Path(folder), services, "none"))
        if chosen.what == "catch-up":
            figures = catch_up(spark, services, Path(folder), chosen.quotes, chosen.rounds)
        elif chosen.what == "phases":
            figures = phases(spark, services, Path(folder), int(chosen.rates.split(",")[-1]), seconds=chosen.seconds, rounds=chosen.rounds)
        else:
            figures = paced(spark, services, Path(folder), [int(rate) for rate in chosen.rates.split(",")], chosen.seconds)
        spark.stop()
    print(json.dumps(figures))
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
