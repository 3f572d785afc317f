"""What judging costs: one bucket is fed quotes of which some are shed, with verdicts and without.

    python -m ops.bench.audit [--ratio R] [--events N] [--profile]

Printed per query: processor time per batch without audits and with them, composite events, verdicts, and microseconds per verdict.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from time import process_time

import numpy as np

from app.asc.selected import SelectedEvents
from app.audit.digests import mixed
from app.audit.verdicts import Verdict
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.events.batch import EventBatch, concatenate, take
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.local.generators import generate
from app.query.compile import compile_texts
from app.query.plan import Catalog
from ops.bench.overload.workloads import NEXT_RISE, UNBROKEN

QUOTES = StreamSchema(
    "stocks",
    (EventType("Quote", (Attribute("symbol", Kind.STRING), Attribute("price", Kind.FLOAT), Attribute("volume", Kind.INTEGER))),),
)
BATCH = 8_000
"""Events per bucket and batch: 16,000 in two buckets."""
SHEDDING = "shedding: {shedder: random, latency_bound: 1 s}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--events", type=int, default=80_000)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    everything = concatenate(list(generate("stocks", chosen.events, seed=1, start_ms=1_780_000_000_000, rate_per_s=1000.0).batches))
    everything = replace(everything, offset=np.arange(len(everything)), source=np.zeros(len(everything), np.int64))
    for name, text in (("next-rise", NEXT_RISE), ("unbroken", UNBROKEN)):
        compiled = compile_texts([("q.yaml", text + SHEDDING)], {"stocks": QUOTES})
        assert not compiled.errors, compiled.errors
        print(name, told(compiled.catalog, everything, chosen.ratio, profiled=chosen.profile))


def told(catalog: Catalog, events: EventBatch, ratio: float, *, profiled: bool) -> str:
    figures = {}
    for audited in (True, False, True):  # the first time to load kernels
        own = catalog if audited else unaudited(catalog)
        profile = cProfile.Profile() if profiled and figures else None
        began = process_time()
        if profile:
            profile.enable()
        verdicts = Counter(verdict for one in fed(own, events, ratio) for verdict in one)
        if profile:
            profile.disable()
            pstats.Stats(profile).sort_stats("cumulative").print_stats(35)
        figures[audited] = process_time() - began
    batches = len(events) / BATCH
    judged = sum(count for verdict, count in verdicts.items() if verdict is not Verdict.UNTOUCHED)
    more = figures[True] - figures[False]
    return (
        f"{1000 * figures[False] / batches:.1f} ms per batch, audited {1000 * figures[True] / batches:.1f} ms; "
        f"{dict(verdicts)}, {1e6 * more / max(1, judged):.0f} us per verdict"
    )


def unaudited(catalog: Catalog) -> Catalog:
    """The same queries without a bound: nothing of them is watched."""
    plans = tuple(replace(plan, shedding=replace(plan.shedding, latency_bound_ms=None)) for plan in catalog.plans)
    return replace(catalog, plans=plans)


def fed(catalog: Catalog, events: EventBatch, ratio: float) -> Iterator[list[Verdict]]:
    rules = TimeRules("stocks", 1_000)
    plan, bucket = IngressPlan(catalog, rules, 1), Bucket(catalog, [rules], 0, ("t",))
    greatest: dict[int, int] = {}

    def gate(batch: EventBatch, selected: SelectedEvents) -> SelectedEvents:
        bitmaps = selected.bitmaps.copy()
        bitmaps[mixed(batch.offset[selected.relevant].astype(np.uint64)) < np.uint64(int(ratio * 2**64 - 1))] = 0
        return selected.with_bitmaps(bitmaps).without_empty()

    for start in range(0, len(events), BATCH):
        progress = Progress(greatest, frozenset({0}))
        ingested = plan.ingest(take(events, np.arange(start, min(start + BATCH, len(events)))), progress, gate)
        greatest = greatest | ingested.judgement.greatest_times
        for found in bucket.advance([packed for _, packed in ingested.packed()], progress).found:
            codes = np.zeros(len(found.matches), np.uint8) if found.verdicts is None else found.verdicts.codes
            yield [Verdict(code) for code in codes.tolist()]


if __name__ == "__main__":
    main()
