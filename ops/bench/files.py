"""Files in and out: events per second from every format, composite events per second as JSON lines, and memory by the length of the file; one core.

    python -m ops.bench.files [--events N] [--repeats N] [--only FORMAT] [--memory 5,20] [--json FILE]

Made quotes: 487 symbols, a random walk, seven attributes as in GF-2015, some 120 bytes a JSON line. CPU time of the process, best of the repeats; events
are read into pieces as `cep replay` does, composite events (a pair of rising quotes of a symbol, three fields) are sorted and made into lines. ``--memory``
runs `cep replay` on files of so many million events, a process each, and tells its peak
(the kernel's VmHWM: a child's `ru_maxrss` begins with its parent's).

Before (commit 159e3e9): JSON lines 0.10 M events/s, composite events as JSON lines 0.07 M/s (260,813 in 3.77 s, where now it takes 0.55); 0.6 to 1.7 GB for 0.9 M events.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, feather

from app.bucket.in_order import parts_in_order
from app.bucket.recording import steps_of
from app.cli.inputs.events import LineFinder
from app.cli.replay.lines import line_blocks
from app.cli.replay.output import ordered_queries
from app.files.gathering import gather
from app.files.opened import event_files
from app.query.compile import compile_texts
from app.query.resolved.vocabulary import Streams

SYMBOLS = 487
BLOCK = 1_000_000
TARGETS = {"jsonl": 1.2, "parquet": 6.0, "avro": 6.0, "lines out": 1.0}
QUERY = """\
name: rise
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.close > a.close"
within: {within} ms
return: {{symbol: a.symbol, gain: b.close - a.close, took: b.time - a.time}}
"""
SCHEMA = {
    "type": "record",
    "name": "Quote",
    "fields": [
        {"name": "time", "type": "long"},
        {"name": "symbol", "type": "string"},
        *({"name": name, "type": "double"} for name in ("open", "high", "low", "close")),
        {"name": "volume", "type": "long"},
    ],
}


def quotes(events: int) -> Iterator[pa.Table]:
    """Made quotes, block by block: the same whatever the length."""
    random = np.random.default_rng(1)
    names = np.array([f"S{k:03}" for k in range(SYMBOLS)])
    for start in range(0, events, BLOCK):
        size = min(BLOCK, events - start)
        opened = np.round(20 + 200 * random.random(size), 2)
        yield pa.table(
            {
                "type": pa.array(np.full(size, "Quote")),
                "time": np.arange(start, start + size, dtype=np.int64) + 1_444_656_600_000,
                "symbol": pa.array(names[random.integers(0, SYMBOLS, size)]),
                "open": opened,
                "high": np.round(opened + random.random(size), 2),
                "low": np.round(opened - random.random(size), 2),
                "close": np.round(opened + random.normal(0, 1, size), 2),
                "volume": random.integers(100, 100_000, size),
            }
        )


def json_lines(table: pa.Table) -> bytes:
    parts: list[pa.Array | str] = []
    for k, name in enumerate(table.column_names):
        text = pc.cast(table[name].combine_chunks(), pa.string())
        parts += [("," if k else "{") + f'"{name}":' + ('"' if k in (0, 2) else ""), text, '"' if k in (0, 2) else ""]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")
    return b"".join(line.as_buffer() for line in lines)


def write_jsonl(path: Path, events: int) -> None:
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pa.output_stream(str(path), compression=codec) as file:
        for table in quotes(events):
            file.write(json_lines(table))


def write_csv(path: Path, events: int) -> None:
    with path.open("wb") as file:
        for k, table in enumerate(quotes(events)):
            csv.write_csv(table, file, csv.WriteOptions(include_header=k == 0, quoting_style="none"))


def write_avro(path: Path, events: int) -> None:
    with path.open("wb") as file:
        rows = (row for table in quotes(events) for row in table.drop_columns(["type"]).to_pylist())
        fastavro.writer(file, fastavro.parse_schema(SCHEMA), rows, codec="null")


def write_parquet(path: Path, events: int) -> None:
    blocks = quotes(events)
    first = next(blocks)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in blocks:
            writer.write_table(table)


def write_feather(path: Path, events: int) -> None:
    feather.write_feather(pa.concat_tables(quotes(events)), path, compression="lz4")


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "jsonl": write_jsonl,
    "jsonl.gz": write_jsonl,
    "jsonl.zst": write_jsonl,
    "csv": write_csv,
    "avro": write_avro,
    "parquet": write_parquet,
    "feather": write_feather,
}


def best(work: Callable[[], object], repeats: int) -> float:
    """CPU seconds."""
    times = []
    for _ in range(repeats + 1):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times[1:])


def reading(folder: Path, name: str, events: int, repeats: int) -> float:
    path = folder / f"quotes.{name}"
    WRITERS[name](path, events)
    rate = events / best(lambda: gather(event_files([path])), repeats) / 1e6
    path.unlink()
    return rate


def writing(folder: Path, events: int, repeats: int) -> tuple[int, float]:
    path = folder / "quotes.parquet"
    write_parquet(path, events)
    gathered = gather(event_files([path]))
    compiled = compile_texts([("rise.yaml", QUERY.format(within=SYMBOLS * 4))], Streams(everything=gathered.schema))
    assert not compiled.errors, compiled.errors
    steps = steps_of(compiled.catalog, parts_in_order(gathered.pieces.spans, lambda k: gathered.learnt.settled(gathered.pieces[k]).batch))
    found = [one for step in steps for one in step.found]
    matches = sum(len(one.matches) for one in found)

    def lines() -> None:
        with (folder / "out").open("wb") as file:
            file.writelines(line_blocks(ordered_queries(compiled.catalog, found, ()), LineFinder(None, np.zeros(0, np.int64)), None))

    return matches, matches / best(lines, repeats) / 1e6


def memory(folder: Path, millions: float, name: str) -> dict[str, float]:
    """A whole run of `cep replay` in a process of its own."""
    path, query = folder / f"long.{name}", folder / "rise.yaml"
    WRITERS[name](path, int(millions * 1e6))
    query.write_text(QUERY.format(within=SYMBOLS))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; from app.cli.main import cli\ntry: cli(sys.argv[1:])\nfinally: print(open('/proc/self/status').read())"
    command = [sys.executable, "-c", code, "replay", "--queries", str(query), "--events", str(path), "--out", str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stderr.strip())
    lines = (folder / "out").stat().st_size
    path.unlink()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"peak_mb": int(done.stdout.split("VmHWM:")[1].split()[0]) / 1024, "cpu_s": cpu, "written_mb": lines / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="a format, or out")
    parser.add_argument("--memory", default="", help="millions of events, e.g. 5,20; instead of the rates")
    parser.add_argument("--format", default="jsonl", help="of the files for --memory")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="cep-bench-") as name:
        folder = Path(name)
        if chosen.memory:
            for millions in chosen.memory.split(","):
                figures[f"{millions} M events"] = found = memory(folder, float(millions), chosen.format)
                print(
                    f"{millions:>5} M events  peak {found['peak_mb']:,.0f} MB, {found['cpu_s']:.1f} s CPU, {found['written_mb']:,.0f} MB written"
                )
        else:
            for kind in [chosen.only] if chosen.only in WRITERS else [] if chosen.only else WRITERS:
                figures[kind] = rate = reading(folder, kind, chosen.events, chosen.repeats)
                print(f"{kind:>10}  {rate:6.2f} M events/s" + (f"  (target {TARGETS[kind]})" if kind in TARGETS else ""))
            if chosen.only in (None, "out"):
                matches, rate = writing(folder, chosen.events, chosen.repeats)
                figures["lines out"] = rate
                print(f" lines out  {rate:6.2f} M composite events/s  (target {TARGETS['lines out']}; {matches:,} of them)")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
