"""Runs over more texts than an engine keeps: thousands of tags come and go within one batch, and every match has its own."""

from __future__ import annotations

from collections import Counter
from functools import cache

from app.bucket.recording import match_sorted
from app.bucket.values import plain_values
from app.cli.demo.world import QUICKSTART
from app.cli.inputs.query_streams import configured_schemas, settings_of
from app.events.batch import EventBatch, concatenate
from app.local.generators import generate
from app.query.compile import compile_texts

QUERY = """
name: left
from: retail
event: SEQ(ShelfReading shelf, CounterReading paid)
where: "[tag_id]"
within: 4 hours
return: {tag: shelf.tag_id, shelf: shelf.shelf_id, counter: paid.counter_id, took: paid.time - shelf.time}
evaluator: %s
"""


@cache
def events() -> EventBatch:
    return concatenate(generate("retail", 20_000, seed=3, rate_per_s=20).batches)


def found(evaluator: str) -> Counter[tuple[object, ...]]:
    compiled = compile_texts([("q.yaml", QUERY % evaluator)], configured_schemas(settings_of(QUICKSTART)))
    assert not compiled.errors
    (plan,) = compiled.catalog.plans
    rows: Counter[tuple[object, ...]] = Counter()
    for one in match_sorted(compiled.catalog, events()).found:
        rows.update(zip(*(plain_values(one.matches.fields[field.name], field.kind) for field in plan.returns), strict=True))
    return rows


def test_runs_find_what_stacks_find_with_the_same_tags() -> None:
    stacks = found("stacks")
    assert len({row[0] for row in stacks}) > 2_000, "more tags than an engine keeps without dropping some"
    assert found("runs") == stacks
