"""Recorded topics as Parquet files, and the same events as JSON lines with their positions: one input for Spark and for `cep replay`."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from app.events.avro import parse_schema
from app.events.batch import EventBatch
from app.local.generators.avro_records import avro_records, confluent_header
from app.local.generators.json_lines import json_lines
from app.pipeline.application import opened, schema_keeping
from app.pipeline.assemble import ingested, matched
from app.pipeline.schemas import KeptSchemas
from app.pipeline.source import recorded_records

PARTITIONS = 3
FIRST_S = 1_700_000_000
"""Two files of the same millisecond would be read in any order."""
ROOT = Path(__file__).parents[2]
COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


class KnownSchemas:
    """A registry with the schemas of a folder, the shipped ones by default, numbered by name."""

    def __init__(self, folder: Path = ROOT / "schemas") -> None:
        self.texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.avsc"))}
        self.ids = {name: number for number, name in enumerate(self.texts, start=1)}
        self._next = 1000

    def schema(self, key: int):
        return next((parse_schema(self.texts[name]) for name, number in self.ids.items() if number == key), None)

    def register(self, subject: str, text: str) -> int:
        self._next += 1
        return self._next

    def teach(self, keeping) -> None:
        """Puts all schemas where workers look first."""
        kept = KeptSchemas(keeping, self)
        for number in self.ids.values():
            kept.schema(number)


def recorded(batch: EventBatch, topic: str, key: str, registry: KnownSchemas) -> tuple[list[dict], list[dict]]:
    """Rows of a topic with three partitions, keyed like a producer's, and the same events as JSON with positions."""
    schemas = {name: json.loads(text) for name, text in registry.texts.items()}
    headers = {name: confluent_header(number) for name, number in registry.ids.items()}
    values: dict[int, bytes] = {}
    for _, rows, records in avro_records(batch, schemas, headers=headers):
        values.update(zip(rows.tolist(), records, strict=True))
    plain = [orjson.loads(line) for line in json_lines([batch])]
    ends = [0] * PARTITIONS
    found = []
    for row, event in enumerate(plain):
        partition = zlib.crc32(str(event[key]).encode()) % PARTITIONS
        event["position"] = [topic, partition, ends[partition]]
        found.append({"topic": topic, "partition": partition, "offset": ends[partition], "time": int(event["time"]), "value": values[row]})
        ends[partition] += 1
    return found, plain


def run_recorded(spark, settings, folder: str, registry: KnownSchemas, take=None, *, before=None) -> None:
    """The application over the files that are there, until they are used up; the next call goes on from the checkpoint.

    Args:
        take: gets every batch's output records.
        before: called with the opened application before the query starts.
    """
    registry.teach(schema_keeping(settings))
    with opened(spark, settings, registry, take=take or (lambda batch, table: None)) as ready:
        if before is not None:
            before(ready)
        reports = ingested(recorded_records(spark, settings, folder, topics=ready.deployment.topics), settings, ready.tasks)
        query = matched(reports, settings, ready.batches).trigger(availableNow=True).start()
        query.awaitTermination()


def write_parquet(folder: Path, records: list[dict], files: int) -> None:
    """Files in the order in which they are to be read, which Spark takes from their times; each has its records by topic partition and offset, as Kafka's batches do."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(records)), files)):
        rows = sorted((records[k] for k in part), key=lambda r: (r["topic"], r["partition"], r["offset"]))
        table = pa.table(
            {
                "topic": [r["topic"] for r in rows],
                "partition": pa.array([r["partition"] for r in rows], pa.int32()),
                "offset": [r["offset"] for r in rows],
                "timestamp": pa.array([r["time"] * 1000 for r in rows], pa.timestamp("us", tz="UTC")),
                "key": pa.array([None] * len(rows), pa.binary()),
                "value": pa.array([r["value"] for r in rows], pa.binary()),
            },
            schema=COLUMNS,
        )
        file = folder / f"{number:04}.parquet"
        pq.write_table(table, file)
        os.utime(file, (FIRST_S + number, FIRST_S + number))
