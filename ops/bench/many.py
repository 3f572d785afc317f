"""Many queries at once on GF-2015, from arrays: selection for all of them, then the engine of each on its candidates; one core.

    python -m ops.bench.many [--queries 100,1000] [--repeats N] [--data FOLDER] [--json FILE]

Query k: a quote of one symbol, then within 5 minutes one of another above a price that few of its quotes exceed. Matches are built as columns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from app.asc.selection import Selection
from app.bucket.engines import new_engine
from app.cep.engine import Watermarks
from app.events.batch import EventBatch, take, with_columns
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog
from ops.bench.engine import slices
from ops.bench.runs import RECORDING, recording

STREAM = StreamSchema(
    "s", (EventType("Stock", (Attribute("symbol", Kind.STRING), Attribute("price", Kind.FLOAT), Attribute("volume", Kind.INTEGER))),)
)
WARM_UP = 20_000
TARGETS = {100: 8.0, 1000: 2.0}


def catalog_of(count: int, stream: EventBatch, symbols: list[str]) -> Catalog:
    """``count`` queries of two steps."""
    random = np.random.default_rng(3)
    codes, prices = stream.columns["symbol"].values, stream.columns["price"].values
    bounds = [float(np.quantile(prices[codes == k], 0.9)) for k in range(len(symbols))]
    texts = []
    for number in range(count):
        first, second = random.choice(len(symbols), 2, replace=False)
        where = f"a.symbol = '{symbols[first]}' AND b.symbol = '{symbols[second]}' AND b.price > {bounds[second]}"
        query = (
            f'name: q{number}\nevent: SEQ(Stock a, Stock b)\nwhere: "{where}"\nwithin: 5 minutes\nreturn: {{low: a.price, high: b.price}}\n'
        )
        texts.append((f"q{number}.yaml", query))
    compiled = compile_texts(texts, {"s": STREAM})
    if compiled.errors:
        raise SystemExit("\n".join(finding.render() for finding in compiled.errors))
    return compiled.catalog


def once(catalog: Catalog, selection: Selection, parts: list[tuple[EventBatch, np.ndarray]]) -> tuple[float, int]:
    """Seconds and matches of one run with fresh engines; they lay out their plans at the first part, which is short and not in the time."""
    engines = [new_engine(plan) for plan in catalog.plans]
    found, begin = 0, time.perf_counter()
    for number, (batch, _) in enumerate(parts):
        if number == 1:
            begin = time.perf_counter()
        selected = selection.select(batch)
        watermarks = Watermarks(int(batch.time[-1]) + 1)
        for query, engine in enumerate(engines):
            rows, items = selected.of_query(query)
            if len(rows):
                matches, _ = engine.feed(take(with_columns(batch, catalog.plans[query].columns), rows), items, watermarks)
                found += len(matches)
    return time.perf_counter() - begin, found


def main() -> None:
    """Prints a line per number of queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default="100,1000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (arguments.data / RECORDING).is_file():
        raise SystemExit(f"{arguments.data / RECORDING} is not there; name the folder of the recordings with --data")
    stream, symbols = recording(arguments.data)
    figures: dict[str, Any] = {}
    for count in map(int, arguments.queries.split(",")):
        catalog = catalog_of(count, stream, symbols)
        selection = Selection(catalog, "s")
        masks = np.zeros(len(stream), np.uint64)
        head, tail = take(stream, np.arange(WARM_UP)), take(stream, np.arange(WARM_UP, len(stream)))
        parts = [(head, masks[:WARM_UP]), *slices(tail, masks[WARM_UP:], 262_144)]
        runs = [once(catalog, selection, parts) for _ in range(arguments.repeats)]
        rates = sorted(len(tail) / seconds / 1e6 for seconds, _ in runs)
        figures[str(count)] = {"m_events_per_s": statistics.median(rates), "lowest": rates[0], "highest": rates[-1], "matches": runs[0][1]}
        target = f"target {TARGETS[count]:g}" if count in TARGETS else ""
        print(
            f"{count:5} queries {statistics.median(rates):6.2f} M events/s ({rates[0]:.2f} .. {rates[-1]:.2f})  {runs[0][1]} matches  {target}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
