"""How fast records become columns, against fastavro. Run: ``python -m ops.bench.decode [--records N] [--repeats N]``.

Workloads: *quotes* (the shipped schema: a symbol and six numbers, three of them nullable), *plain quotes* (a symbol and four numbers),
*readings* (200,000 tags), *new tags* (every
record has a tag of its own), *two schemas* (an older and a newer writer's schema, mixed). Figures are records per
second on one core, from an Arrow array in memory to an `EventBatch`.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa

from app.events.avro import AvroSchema, StreamDefinition, parse_schema
from app.events.decoder import BatchDecoder
from app.events.registry import FixedSchemas
from app.events.wire import prefix

SCHEMAS = Path(__file__).parents[2] / "schemas"
DISTINCT = 50_000
"""Records that are encoded; the batch repeats them, as encoding by fastavro is slow."""
SAMPLE = 20_000
"""Records that fastavro decodes for comparison."""


def shipped(name: str) -> AvroSchema:
    """A schema of `schemas/`."""
    return parse_schema((SCHEMAS / f"{name}.avsc").read_text())


def plain_quote() -> AvroSchema:
    """A symbol and four numbers."""
    number = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [("time", number), ("symbol", "string"), ("price", "double"), ("volume", "long"), ("bid", "double")]
    return parse_schema(json.dumps({"type": "record", "name": "Quote", "fields": [{"name": n, "type": t} for n, t in fields]}))


def quote_rows(count: int) -> list[dict[str, object]]:
    """Quotes of 500 symbols, a millisecond apart."""
    rng = np.random.default_rng(1)
    symbols, prices, volumes = (
        rng.integers(500, size=count).tolist(),
        rng.random(count).tolist(),
        rng.integers(100_000, size=count).tolist(),
    )
    return [
        {"time": 1_444_656_600_000 + k, "symbol": f"SYM{s}", "price": p, "volume": v, "bid": p, "open": p, "high": p, "low": None}
        for k, (s, p, v) in enumerate(zip(symbols, prices, volumes, strict=True))
    ]


def reading_rows(count: int) -> list[dict[str, object]]:
    """Shelf readings of as many tags as there are rows."""
    return [
        {
            "time": 1_444_656_600_000 + k,
            "tag_id": f"E280-{k * 7919 % 1_000_003:012d}",
            "store_id": k % 50,
            "shelf_id": k % 200,
            "rssi": -60.0,
        }
        for k in range(count)
    ]


def encoded(schema: AvroSchema, rows: list[dict[str, object]], schema_id: int) -> list[bytes]:
    """Records in the wire format."""
    found = []
    for row in rows:
        buffer = io.BytesIO()
        buffer.write(prefix(schema_id))
        fastavro.schemaless_writer(buffer, schema.root, row)
        found.append(buffer.getvalue())
    return found


def records_per_second(decoder: BatchDecoder, values: pa.Array, repeats: int) -> float:
    """The best of several decodes of the batch; processor time, so that other programs disturb less."""
    source, offset = np.zeros(len(values), np.int64), np.arange(len(values))
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        decoded = decoder.decode(values, source, offset)
        times.append(time.process_time() - start)
        if len(decoded.batch) != len(values):
            raise RuntimeError(f"{len(decoded.failures)} records failed: {decoded.failures.text(0)}")
    return len(values) / min(times[1:])


def fastavro_per_second(schema: AvroSchema, records: list[bytes]) -> float:
    """The same records by fastavro, into dictionaries."""
    start = time.process_time()
    for record in records[:SAMPLE]:
        fastavro.schemaless_reader(io.BytesIO(record[5:]), schema.root, None)
    return min(SAMPLE, len(records)) / (time.process_time() - start)


def run(records: int = 1_000_000, repeats: int = 5) -> dict[str, float]:
    """All workloads.

    Returns:
        Figures by name: ``<workload>_records_per_s``, ``fastavro_records_per_s``, ``quote_bytes``.
    """
    quote, plain, shelf = shipped("Quote"), plain_quote(), shipped("ShelfReading")
    quotes, plains = encoded(quote, quote_rows(DISTINCT), 1), encoded(plain, quote_rows(DISTINCT), 2)
    readings = encoded(shelf, reading_rows(4 * DISTINCT), 3)
    mixed = [pair[k % 2] for k, pair in enumerate(zip(quotes, plains, strict=True))]
    source = FixedSchemas({1: quote, 2: plain, 3: shelf})

    def rate(reader: AvroSchema, values: list[bytes], times: int | None = None) -> float:
        times = times or max(1, records // len(values))
        return records_per_second(BatchDecoder(StreamDefinition("bench"), [reader], source), pa.array(values * times, pa.binary()), repeats)

    return {
        "quotes_records_per_s": rate(quote, quotes),
        "plain_quotes_records_per_s": rate(plain, plains),
        "readings_records_per_s": rate(shelf, readings),
        "new_tags_records_per_s": rate(shelf, readings[: 2 * DISTINCT], 1),
        "two_schemas_records_per_s": rate(quote, mixed),
        "fastavro_records_per_s": fastavro_per_second(quote, quotes),
        "quote_bytes": float(np.mean([len(record) for record in quotes])),
    }


def main() -> None:
    """Prints one figure per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for name, figure in run(arguments.records, arguments.repeats).items():
        print(f"{name:<32}{figure:>16,.0f}")


if __name__ == "__main__":
    main()
