"""Composite events and timeouts of the whole language: put together as columns they are, byte by byte, what they are object by object."""

from __future__ import annotations

import json

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from app.bucket.identity import Outcome, identities_of
from app.bucket.recording import match_sorted
from app.cep.matches import Matches
from app.delivery.composite_schema import composite_schema, timeout_schema
from app.events.batch import in_total_order
from app.owners.composites import Destination, add_composite_events
from app.owners.deployment import OutputTopic
from app.owners.egress import Records
from app.query.plan import Plan
from tests.naive.composites import add_objects, composite_events
from tests.property.test_bucket_whole_language import compiled
from tests.property.whole_language import is_valid_for, queries, streams


@settings(max_examples=max(150, settings.default.max_examples), deadline=None)
@given(st.data())
def test_columns_say_what_objects_say(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(is_valid_for(query, lines))
    catalog, events = compiled(query, lines)
    (plan,) = catalog.plans
    for found in match_sorted(catalog, in_total_order(events)).found:
        compare(plan, found.matches, "match")
        if found.timeouts is not None:
            compare(plan, found.timeouts, "timeout")


def compare(plan: Plan, matches: Matches, kind: Outcome) -> None:
    if not len(matches):
        return
    event(f"{kind}s of {plan.evaluator}")
    schema = timeout_schema(plan) if kind == "timeout" else composite_schema(plan)
    to = Destination(OutputTopic("alerts", 300, json.dumps(schema)), "shop", ("t",), 1_795_392_000_123)
    columns, objects = Records(), Records()
    made = list(composite_events(plan, matches, to.topics, kind))
    assert (
        add_composite_events(columns, plan, matches, to, kind) == [one.id for one in made] == identities_of(plan, matches, to.topics, kind)
    )
    add_objects(objects, made, to.output, to.application, to.detected_at_ms)
    assert (columns.topics, columns.keys, columns.headers, columns.values) == (
        objects.topics,
        objects.keys,
        objects.headers,
        objects.values,
    )
