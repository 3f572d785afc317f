"""Shedding under random queries: what is found is exactly what the definitions find in the events that were kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

from app.bucket.recording import match_sorted
from app.control.messages.directives import Directive, QueryShedding
from app.pipeline.gate import shedding_gate
from app.query.compile import compile_texts
from app.query.plan import Catalog
from shedding.candidates import JudgedEvents
from shedding.identity import identities
from shedding.registry import unlearned
from tests.naive.language import Event, yaml_text
from tests.naive.matching import matches
from tests.property.application_way import Answer, answers, expected
from tests.property.event_arrays import event_batch, stream_schema
from tests.property.random_queries import Schemas, queries, schemas, streams


def found_with(catalog: Catalog, known: Schemas, events: list[Event], directive: Directive) -> dict[str, Counter[Answer]]:
    found = {plan.name: Counter() for plan in catalog.plans}
    recording = match_sorted(catalog, event_batch(events, known), lambda selection: shedding_gate(catalog, selection, directive))
    for one in recording.found:
        found[catalog.plans[one.query].name].update(answers(catalog.plans[one.query], one.matches))
    return found


@given(st.data())
def test_each_query_finds_what_is_in_the_events_that_it_kept(data: st.DataObject) -> None:
    known = data.draw(schemas())
    wanted = [replace(data.draw(queries(known)), name=f"q{number}") for number in range(2)]
    patient = data.draw(st.booleans())
    extra = "" if patient else "shedding: {shedder: random, latency_bound: 1 s, allow_false_positives: false}\n"
    texts = [(f"{query.name}.yaml", yaml_text(query, "input") + extra) for query in wanted]
    note("---\n".join(text for _, text in texts))
    compilation = compile_texts(texts, {"input": stream_schema(known)})
    assert not compilation.errors
    events = data.draw(streams(known))
    ratios = {query.name: data.draw(st.sampled_from([0.0, 0.2, 0.6, 1.0])) for query in wanted}
    seed = data.draw(st.integers(0, 3))
    directive = Directive(batch=0, seed=seed, shedding={name: QueryShedding(ratio) for name, ratio in ratios.items()})
    found = found_with(compilation.catalog, known, events, directive)
    columns = [np.array([event[name] for event in events], dtype=np.int64) for name in ("source", "offset", "time")]
    judged = JudgedEvents(identities(columns[0], columns[1]), columns[2])
    for query in wanted:
        stays = unlearned("random", seed).gate(ratios[query.name]).keep(judged)
        kept = [event for event, stay in zip(events, stays, strict=True) if stay]
        whole = expected(matches(query, events), known)
        if ratios[query.name] == 0:
            assert found[query.name] == whole, "drop ratio 0 changes nothing"
        elif patient:
            assert found[query.name] == expected(matches(query, kept), known)
        else:
            assert found[query.name] <= whole, "no false positives"
        if not any(item.negated for item in query.items):
            assert found[query.name] <= whole, "without negation shedding invents nothing"
