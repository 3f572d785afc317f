"""The whole pure way, query text to matches, finds what the definitions find: random queries and streams, any batches, restarts anywhere."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from app.cep.engine import Watermarks
from tests.naive.language import Attr, Call, Item, Query, yaml_text
from tests.naive.matching import ends_negated, matches, return_fields
from tests.property.application_way import END, Run, expected, plan_of
from tests.property.event_arrays import event_batch
from tests.property.random_queries import cuts, queries, schemas, streams


@given(st.data())
def test_text_to_matches_finds_exactly_what_the_definitions_find(data: st.DataObject) -> None:
    known = data.draw(schemas())
    query = data.draw(queries(known))
    events = data.draw(streams(known))
    note(yaml_text(query))
    assert Run(plan_of(query, known), known).feed(events, END) == expected(matches(query, events), known)


@given(st.data())
def test_any_batches_and_restarts_give_the_same_matches_as_soon_as_they_are_certain(data: st.DataObject) -> None:
    known = data.draw(schemas())
    query = data.draw(queries(known))
    events = data.draw(streams(known))
    note(yaml_text(query))
    run = Run(plan_of(query, known), known)
    whole = matches(query, events)
    begin, seen, watermark = 0, Counter(), -1000
    for end in data.draw(cuts(len(events))):
        if data.draw(st.booleans()):
            run.restart()
        behind = data.draw(st.sampled_from([0, 0, 1, 30]))
        watermark = max(watermark, events[end]["time"] - behind) if end < len(events) else END
        seen += run.feed(events[begin:end], watermark)
        begin = end
        fed = {(event["source"], event["offset"]) for event in events[:end]}
        certain = [
            match
            for match in whole
            if (match.time <= watermark if ends_negated(query) else all((source, offset) in fed for _, source, offset in match.identity))
        ]
        assert seen == expected(certain, known), "not earlier and not later than certain"
    assert seen == expected(whole, known)


@given(st.lists(st.tuples(*[st.floats(-180, 180, allow_nan=False)] * 4), min_size=1, max_size=5))
def test_distances_are_those_of_the_definitions(places: list[tuple[float, ...]]) -> None:
    known = {"A": dict.fromkeys("xyuv", "float")}
    arguments = tuple(Attr("a", name) for name in "xyuv")
    query = Query((Item(("A",), "a"),), returns=(("flat", Call("distance", arguments)), ("round", Call("haversine", arguments))))
    events = [
        {"type": "A", "time": number, "source": 0, "offset": number, "attributes": dict(zip("xyuv", place, strict=True))}
        for number, place in enumerate(places)
    ]
    found = {bound: dict(fields) for bound, _, fields in Run(plan_of(query, known), known).feed(events, END).elements()}
    assert len(found) == len(events)
    for match in matches(query, events):
        assert found[match.identity] == pytest.approx(return_fields(match, known), rel=1e-9, abs=1e-6)


def test_large_integers_are_returned_exactly() -> None:
    known = {"A": {"u": "integer"}}
    query = Query((Item(("A",), "a"),), returns=(("u", Attr("a", "u")),))
    large = [2**53 + 1, 2**63 - 1, -(2**63)]
    events = [{"type": "A", "time": n, "source": 0, "offset": n, "attributes": {"u": u}} for n, u in enumerate(large)]
    run = Run(plan_of(query, known), known)
    batch = event_batch(events, known)
    matches_, _ = run.engine.feed(batch, np.ones(len(batch), dtype=np.uint64), Watermarks(END))
    assert matches_.fields["u"].values.tolist() == large
