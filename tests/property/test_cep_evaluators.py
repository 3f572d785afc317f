"""The two evaluators find the same in plain sequences: the planner's choice is one of speed alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

from app.asc.selection import Selection
from app.bucket.engines import new_engine, restore_engine
from app.cep.engine import Watermarks
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from tests.naive.language import Event, yaml_text
from tests.property.application_way import END, comparable
from tests.property.event_arrays import _cells, event_batch, stream_schema
from tests.property.random_queries import Schemas, cuts, queries, schemas, streams


def found_by(plan: Plan, known: Schemas, events: list[Event], ends: list[int]) -> Counter[object]:
    """What an engine of the plan finds, restarted between the batches."""
    engine, begin, seen = new_engine(plan), 0, Counter()
    selection = Selection(Catalog.of((plan,)), "input")
    for end in ends:
        batch = event_batch(events[begin:end], known)
        rows, masks = selection.select(batch).of_query(0)
        items = np.zeros(len(batch), dtype=np.uint64)
        items[rows] = masks
        watermark = END if end == len(events) else events[end]["time"]
        matches, _ = engine.feed(batch, items, Watermarks(watermark))
        engine.validate()
        bound = matches.constituents([item.index for item in plan.positive])
        fields = {name: _cells(column) for name, column in matches.fields.items()}
        for k in range(len(matches)):
            part = slice(bound.starts[k], bound.starts[k + 1])
            rows_bound = bound.rows[part]
            own = zip(
                bound.items[part].tolist(),
                matches.events.source[rows_bound].tolist(),
                matches.events.offset[rows_bound].tolist(),
                strict=True,
            )
            seen[tuple(own), int(matches.time[k]), comparable({name: cells[k] for name, cells in fields.items()})] += 1
        engine = restore_engine(plan, engine.snapshot())
        begin = end
    return seen


@given(st.data())
def test_stacks_and_runs_find_the_same(data: st.DataObject) -> None:
    known = data.draw(schemas())
    query = data.draw(queries(known))
    events = data.draw(streams(known))
    text = yaml_text(query, "input")
    note(text)
    plans = []
    for evaluator in ("stacks", "runs"):
        compiled = compile_texts([("q.yaml", f"{text}evaluator: {evaluator}\n")], {"input": stream_schema(known)})
        assert not compiled.errors, "\n".join(finding.render() for finding in compiled.errors)
        plans.append(compiled.catalog.plans[0])
    assert [plan.evaluator for plan in plans] == ["stacks", "runs"]
    ends = data.draw(cuts(len(events)))
    assert found_by(plans[0], known, events, ends) == found_by(plans[1], known, events, ends)


def test_plans_of_the_two_differ_in_fingerprint() -> None:
    compiled = [
        compile_texts(
            [("q.yaml", f"name: q\nevent: SEQ(A a, B b)\nwithin: 1 s\nevaluator: {one}\n")], {"input": stream_schema({"A": {}, "B": {}})}
        )
        for one in ("stacks", "runs")
    ]
    stacks, runs = (one.catalog.plans[0] for one in compiled)
    assert stacks.fingerprint != runs.fingerprint
    assert replace(stacks, fingerprint="") != replace(runs, fingerprint="")
