"""The whole language through ingress and buckets: any split over batches, tasks and buckets, with restarts, gives the identities of `cep replay`'s way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.bucket.matching import NO_ENDINGS, Ending, Found
from app.bucket.recording import match_sorted
from app.events.batch import EventBatch, in_total_order, take
from app.files.gathering import parse_events
from app.query.compile import compile_texts
from app.query.plan import Catalog
from app.query.resolved.vocabulary import Streams
from tests.naive.composites import composite_events
from tests.naive.patterns import WholeQuery, yaml_text
from tests.property.random_queries import cuts
from tests.property.whole_language import is_valid_for, queries, streams

SOURCES = frozenset((0, 1))


def run(
    catalog: Catalog,
    rules: TimeRules,
    steps: list[list[EventBatch]],
    buckets: int,
    restarts: set[int],
    endings: Sequence[Mapping[int, Ending]] = (),
    sources: frozenset[int] = SOURCES,
) -> Counter[Any]:
    """Identities of matches and timeouts, and what was shed; ``endings`` by step, as far as there are some."""
    plan = IngressPlan(catalog, rules, buckets)
    states = [Bucket(catalog, [rules], number, ("t",)) for number in range(buckets)]
    found: Counter[Any] = Counter()
    greatest: dict[int, int] = {}
    for number, tasks in enumerate([*steps, []]):
        progress = Progress(greatest, sources, closing=number == len(steps))
        chunks: list[list[bytes]] = [[] for _ in states]
        news = dict(greatest)
        for batch in tasks:
            ingested = plan.ingest(batch, progress)
            assert not len(ingested.late)
            news |= {s: t for s, t in ingested.judgement.greatest_times.items() if t > news.get(s, t - 1)}
            for bucket, packed in ingested.packed():
                chunks[bucket].append(packed)
        greatest = news
        for bucket, own in enumerate(chunks):
            if number in restarts:
                states[bucket] = Bucket.restore(catalog, [rules], bucket, states[bucket].snapshot(), ("t",))
            output = states[bucket].advance(reversed(own), progress, endings[number] if number < len(endings) else NO_ENDINGS)
            found += Counter(("shed", number, bucket, *one.shed) for one in output.found if one.shed[0])
            states[bucket].validate()
            found += identities(catalog, output.found)
    return found


def identities(catalog: Catalog, found: Iterable[Found]) -> Counter[Any]:
    """Matches and timeouts, by kind and time."""
    all_of_them: Counter[Any] = Counter()
    for one in found:
        query = catalog.plans[one.query]
        all_of_them += Counter(("match", made.time, made.id) for made in composite_events(query, one.matches, ("t",)))
        if one.timeouts is not None:
            all_of_them += Counter(("timeout", made.time, made.id) for made in composite_events(query, one.timeouts, ("t",), "timeout"))
    return all_of_them


@settings(max_examples=max(150, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.data())
def test_any_split_of_the_input_finds_what_the_sorted_events_give(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(is_valid_for(query, lines))
    catalog, events = compiled(query, lines)
    (plan,) = catalog.plans
    event(f"{plan.evaluator}, ranks {plan.ranks}")
    source = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(lines), max_size=len(lines))), dtype=np.int64)
    batch = replace(events, source=source)
    rules = TimeRules(plan.streams[0], 1_000_000)
    whole = identities(catalog, match_sorted(catalog, in_total_order(batch)).found)
    steps = in_steps(data, batch)
    restarts = data.draw(st.sets(st.integers(0, len(steps))))
    rules = replace(rules, allowed_lateness_ms=data.draw(st.sampled_from([1_000_000, _disorder(batch)])))
    found = run(catalog, rules, steps, data.draw(st.integers(1, 3)), restarts)
    note(f"missing {whole - found} surplus {found - whole}")
    assert found == whole
    assert max(found.values(), default=1) == 1


def compiled(query: WholeQuery, lines: Sequence[Mapping[str, Any]]) -> tuple[Catalog, EventBatch]:
    """A query that the compiler takes, over the types of some events, and these as they stand; a failing case shows both."""
    text = yaml_text(query)
    note(text + "\n".join(map(json.dumps, lines)))
    file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
    compilation = compile_texts([("q.yaml", text)], Streams(everything=file.schema))
    assume(not compilation.errors)
    return compilation.catalog, file.batch


def in_steps(data: st.DataObject, batch: EventBatch, most: int = 4) -> list[list[EventBatch]]:
    """The batch cut up to so many times into micro-batches, some of them into two tasks by source."""
    steps, begin = [], 0
    for end in data.draw(cuts(len(batch), most)):
        part, begin = np.arange(begin, end), end
        by_source = [part[batch.source[part] == one] for one in (0, 1)] if data.draw(st.booleans()) else [part]
        steps.append([take(batch, rows) for rows in by_source])
    return steps


def _disorder(batch: EventBatch) -> int:
    """The least lateness under which nothing is late."""
    worst = 0
    for one in (0, 1):
        times = batch.time[batch.source == one]
        if len(times):
            worst = max(worst, int((np.maximum.accumulate(times) - times).max()))
    return worst
