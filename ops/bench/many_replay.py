"""1,000 queries against 10 with the same number of matches in all, on GF-2015, as `cep replay` matches events that are in order; one core, CPU time.

    python -m ops.bench.many_replay [--events N] [--repeats N] [--data FOLDER] [--json FILE]

Query k: two quotes of different symbols (every other query: three) within 5 minutes, the last one above a price. Of 10 queries no bound keeps a quote out; of
1,000 queries bounds are such that they find together what the 10 find (as nearly as a search by halves gets). Target: a third of the speed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from app.bucket.recording import match_sorted
from app.events.batch import EventBatch, take
from app.query.compile import compile_texts
from app.query.plan import Catalog
from ops.bench.many import STREAM
from ops.bench.runs import RECORDING, recording


def catalog_of(count: int, share: float, stream: EventBatch, symbols: list[str]) -> Catalog:
    """``count`` queries whose last quote is among the dearest ``share`` of its symbol's."""
    random = np.random.default_rng(7)
    codes, prices = stream.columns["symbol"].values, stream.columns["price"].values
    order = np.lexsort((prices, codes))
    bounds = np.searchsorted(codes[order], np.arange(len(symbols) + 1))
    texts = []
    for number in range(count):
        chosen = random.choice(len(symbols), 2 + number % 2, replace=False).tolist()
        own = prices[order[bounds[chosen[-1]] : bounds[chosen[-1] + 1]]]
        above = float(own[min(len(own) - 1, int((1 - share) * len(own)))]) if len(own) else 0.0
        names = "abc"[: len(chosen)]
        where = " AND ".join(f"{name}.symbol = '{symbols[k]}'" for name, k in zip(names, chosen, strict=True))
        pattern = ", ".join(f"Stock {name}" for name in names)
        query = f'name: q{number}\nevent: SEQ({pattern})\nwhere: "{where} AND {names[-1]}.price >= {above}"\nwithin: 5 minutes\n'
        texts.append((f"q{number}.yaml", query + f"return: {{low: a.price, high: {names[-1]}.price}}\n"))
    compiled = compile_texts(texts, {"s": STREAM})
    if compiled.errors:
        raise SystemExit("\n".join(finding.render() for finding in compiled.errors))
    return compiled.catalog


def once(catalog: Catalog, stream: EventBatch) -> tuple[float, int]:
    """CPU seconds and matches; structures are built within the time."""
    start = time.process_time()
    found = match_sorted(catalog, stream)
    return time.process_time() - start, sum(len(one.matches) for one in found.found)


def main() -> None:
    """Prints a line for 10 and for 1,000 queries, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1 << 30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (arguments.data / RECORDING).is_file():
        raise SystemExit(f"{arguments.data / RECORDING} is not there; name the folder of the recordings with --data")
    stream, symbols = recording(arguments.data)
    stream = take(stream, np.arange(min(len(stream), arguments.events)))
    few = catalog_of(10, 1.0, stream, symbols)
    wanted = once(few, stream)[1]
    low, high = 0.0, 0.2
    for _ in range(7):
        share = (low + high) / 2
        many = catalog_of(1000, share, stream, symbols)
        found = once(many, stream)[1]
        if abs(found - wanted) < wanted / 20:
            break
        low, high = (low, share) if found > wanted else (share, high)
    figures: dict[str, Any] = {}
    seconds: dict[int, list[float]] = {10: [], 1000: []}
    for _ in range(arguments.repeats):  # in turn
        for count, catalog in ((10, few), (1000, many)):
            spent, matches = once(catalog, stream)
            seconds[count].append(spent)
            figures[str(count)] = {"m_events_per_s": round(len(stream) / min(seconds[count]) / 1e6, 2), "matches": matches}
    for count, figure in figures.items():
        print(f"{count:>5} queries {figure['m_events_per_s']:6.2f} M events/s, {figure['matches']:,} matches")
    figures["ratio"] = round(min(seconds[10]) / min(seconds[1000]), 3)
    print(f"1,000 queries at {figures['ratio']:.2f} of the speed of 10; target 0.33")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
