"""Many queries at once on GF-2015: what 1,000 cost in `cep replay` against 10 that find as much, and how fast 100 and 1,000 are; one core.

    python -m ops.bench.many [--only NAME] [--queries 100,1000] [--events N] [--repeats N] [--data FOLDER] [--json FILE]

Few against many (1,000 queries at no less than a third of the speed of 10 with as many matches in all). Every query is a sequence of
different symbols within 5 minutes; of 10 queries no bound keeps a quote out, of 1,000 the bounds are such that they find as much (a search by halves).
CPU time, selection and engines are made within it:

* ``rare-steps``: two symbols, both above a price that few of their quotes exceed: alert rules of which every step is rare. 1,000 of them are interested in a
  twelfth of the quotes, and each of these is a candidate of four queries.
* ``any-first-step``: two or three symbols, a bound for the last one only: rules that any quote can begin and few complete. Every quote is a candidate of
  three of 1,000 queries.

Plain speed: ``many-matches``, two symbols and a bound that a tenth of the second one's quotes exceed; 1,000 queries find one match per event.
Selection is made before, matches are built as columns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from app.asc.selection import Selection
from app.bucket.matching import GroupMatching
from app.bucket.recording import SLICE, match_sorted
from app.cep.engine import Watermarks
from app.events.batch import EventBatch, take
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Catalog
from ops.bench.engine import line_of, rates_of, slices
from ops.bench.runs import RECORDING, recording

STREAM = StreamSchema(
    "s", (EventType("Stock", (Attribute("symbol", Kind.STRING), Attribute("price", Kind.FLOAT), Attribute("volume", Kind.INTEGER))),)
)
WARM_UP = 20_000
TARGETS = {100: 8.0, 1000: 2.0}
RATIO = 1 / 3
HALVINGS = 7
QUERY = 'name: q{number}\nevent: SEQ({pattern})\nwhere: "{where}"\nwithin: 5 minutes\nreturn: {{low: a.price, high: {last}.price}}\n'


class Quotes:
    """The recording, and what its symbols cost."""

    def __init__(self, stream: EventBatch, symbols: list[str]) -> None:
        self.stream = stream
        self.symbols = symbols
        codes, prices = stream.columns["symbol"].values, stream.columns["price"].values
        self._prices = prices[np.lexsort((prices, codes))]
        self._bounds = np.searchsorted(np.sort(codes), np.arange(len(symbols) + 1))

    def dearest(self, symbol: int, share: float) -> float:
        """The price that this share of a symbol's quotes reach."""
        own = self._prices[self._bounds[symbol] : self._bounds[symbol + 1]]
        return float(own[min(len(own) - 1, int((1 - share) * len(own)))]) if len(own) else 0.0


def catalog_of(count: int, seed: int, steps: Callable[[int], int], bounds: Callable[[int, int], list[float]], quotes: Quotes) -> Catalog:
    """Queries of different symbols; ``steps``: how many, by query; ``bounds``: least prices of a step, by symbol and steps that follow."""
    random = np.random.default_rng(seed)
    texts = []
    for number in range(count):
        chosen = random.choice(len(quotes.symbols), steps(number), replace=False).tolist()
        names = "abc"[: len(chosen)]
        tests = [f"{name}.symbol = '{quotes.symbols[symbol]}'" for name, symbol in zip(names, chosen, strict=True)]
        for place, (name, symbol) in enumerate(zip(names, chosen, strict=True)):
            tests += [f"{name}.price >= {bound}" for bound in bounds(symbol, len(chosen) - 1 - place)]
        pattern = ", ".join(f"Stock {name}" for name in names)
        texts.append((f"q{number}.yaml", QUERY.format(number=number, pattern=pattern, where=" AND ".join(tests), last=names[-1])))
    compiled = compile_texts(texts, {"s": STREAM})
    if compiled.errors:
        raise SystemExit("\n".join(finding.render() for finding in compiled.errors))
    return compiled.catalog


def rare_steps(count: int, share: float, quotes: Quotes) -> Catalog:
    """Every step is among the dearest ``share`` of its symbol's quotes."""
    return catalog_of(count, 3, lambda _: 2, lambda symbol, _: [quotes.dearest(symbol, share)] if share < 1 else [], quotes)


def any_first_step(count: int, share: float, quotes: Quotes) -> Catalog:
    """The last step is among the dearest ``share`` of its symbol's quotes."""
    return catalog_of(count, 7, lambda k: 2 + k % 2, lambda symbol, left: [] if left else [quotes.dearest(symbol, share)], quotes)


def many_matches(count: int, quotes: Quotes) -> Catalog:
    """The second step is among the dearest tenth."""
    return catalog_of(count, 3, lambda _: 2, lambda symbol, left: [] if left else [quotes.dearest(symbol, 0.1)], quotes)


FEW_AGAINST_MANY = {"rare-steps": rare_steps, "any-first-step": any_first_step}


def replayed(catalog: Catalog, stream: EventBatch) -> tuple[float, float, int]:
    """Seconds, seconds of the processor, matches, as `cep replay` matches events that are in order."""
    begin, busy = time.perf_counter(), time.process_time()
    found = match_sorted(catalog, stream).found
    return time.perf_counter() - begin, time.process_time() - busy, sum(len(one.matches) for one in found)


def few_against_many(workload: Callable[[int, float, Quotes], Catalog], quotes: Quotes, repeats: int) -> dict[str, Any]:
    """Figures of 10 and of 1,000 queries in turn, best of the repeats, and the ratio of their speeds."""
    catalogs = {10: workload(10, 1.0, quotes)}
    wanted = replayed(catalogs[10], quotes.stream)[2]
    low, high = 0.0, 0.4
    for _ in range(HALVINGS):
        share = (low + high) / 2
        catalogs[1000] = workload(1000, share, quotes)
        found = replayed(catalogs[1000], quotes.stream)[2]
        if abs(found - wanted) < wanted / 20:
            break
        low, high = (low, share) if found > wanted else (share, high)
    runs: dict[int, list[tuple[float, float, int]]] = {count: [] for count in catalogs}
    for _ in range(repeats):
        for count, catalog in catalogs.items():
            runs[count].append(replayed(catalog, quotes.stream))
    best = {count: min(busy for _, busy, _ in own) for count, own in runs.items()}
    found = {
        str(count): {
            "m_events_per_s": round(len(quotes.stream) / best[count] / 1e6, 2),
            "ms": round(best[count] * 1e3, 1),
            "matches": own[0][2],
        }
        for count, own in runs.items()
    }
    return {**found, "ratio": round(best[10] / best[1000], 3), "target": round(RATIO, 3)}


def once(catalog: Catalog, selection: Selection, parts: list[tuple[EventBatch, np.ndarray]]) -> tuple[float, float, int]:
    """Seconds, seconds of the processor, matches of one run with fresh engines; these lay out their plans at the first part, which is not counted."""
    groups = [GroupMatching(catalog, group.number) for group in catalog.groups]
    found, begin, busy = 0, time.perf_counter(), time.process_time()
    for number, (batch, _) in enumerate(parts):
        if number == 1:
            begin, busy = time.perf_counter(), time.process_time()
        selected = selection.select(batch)
        watermarks = Watermarks(int(batch.time[-1]) + 1)
        found += sum(len(one.matches) for group in groups for one in group.news_of_selected(batch, selected, watermarks))
    return time.perf_counter() - begin, time.process_time() - busy, found


def plain_speed(count: int, quotes: Quotes, repeats: int) -> dict[str, Any]:
    """Figures of so many queries."""
    catalog, stream = many_matches(count, quotes), quotes.stream
    selection = Selection(catalog, "s")
    masks = np.zeros(len(stream), np.uint64)
    head, tail = take(stream, np.arange(WARM_UP)), take(stream, np.arange(WARM_UP, len(stream)))
    parts = [(head, masks[:WARM_UP]), *slices(tail, masks[WARM_UP:], SLICE)]
    runs = [once(catalog, selection, parts) for _ in range(repeats)]
    return {**rates_of(len(tail), runs), "matches": runs[0][2], "target": TARGETS.get(count)}


def main() -> None:
    """Prints a line per workload and number of queries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--queries", default="100,1000")
    parser.add_argument("--events", type=int, default=1 << 30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (arguments.data / RECORDING).is_file():
        raise SystemExit(f"{arguments.data / RECORDING} is not there; name the folder of the recordings with --data")
    stream, symbols = recording(arguments.data)
    quotes = Quotes(take(stream, np.arange(min(len(stream), arguments.events))), symbols)
    figures: dict[str, Any] = {}
    for name, workload in FEW_AGAINST_MANY.items():
        if arguments.only in name:
            figure = figures[name] = few_against_many(workload, quotes, arguments.repeats)
            for count in ("10", "1000"):
                one = figure[count]
                print(
                    f"{name:<15}{count:>5} queries {one['ms']:7.1f} ms CPU, {one['m_events_per_s']:6.2f} M events/s, {one['matches']:,} matches"
                )
            print(f"{name:<15} 1,000 queries at {figure['ratio']:.2f} of the speed of 10; target {figure['target']:.2f}", flush=True)
    if arguments.only in "many-matches":
        for count in map(int, arguments.queries.split(",")):
            figure = figures[f"many-matches {count}"] = plain_speed(count, quotes, arguments.repeats)
            print(line_of(f"many-matches, {count} queries", figure))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
