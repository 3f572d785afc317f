"""What a reconciliation reads is enough to know what it compares, and what it compares is all that shedding can have changed: for random queries of the whole language."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from app.bucket.recording import match_sorted
from app.events.batch import EventBatch, in_total_order, take
from app.pipeline.reconcile.scope import Interval, needed_for, reach_of, scope_of
from app.query.plan import Catalog
from tests.property.test_bucket_whole_language import compiled, identities
from tests.property.whole_language import is_valid_for, queries, streams

LONG = settings(max_examples=max(150, settings.default.max_examples), deadline=None, phases=(Phase.explicit, Phase.generate))


def drawn(data: st.DataObject) -> tuple[Catalog, EventBatch]:
    """A query that has to do with a bounded time, and events in total order."""
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(lines and is_valid_for(query, lines))
    catalog, events = compiled(query, lines)
    (plan,) = catalog.plans
    reach = reach_of(plan)
    assume(reach is not None)
    note(str(reach))
    return catalog, in_total_order(events)


def found(catalog: Catalog, batch: EventBatch) -> Counter[Any]:
    return identities(catalog, match_sorted(catalog, batch).found)


def between(data: st.DataObject, batch: EventBatch) -> Interval:
    least, greatest = int(batch.time[0]), int(batch.time[-1])
    begin = data.draw(st.integers(least, greatest))
    return Interval(begin, data.draw(st.integers(begin, greatest)))


def inside(made: Counter[Any], scope: Interval) -> Counter[Any]:
    return Counter({one: count for one, count in made.items() if scope.holds(one[1])})


@LONG
@given(st.data())
def test_what_is_read_is_enough_to_know_what_is_compared(data: st.DataObject) -> None:
    catalog, batch = drawn(data)
    scope = between(data, batch)
    needed = needed_for(catalog.plans[0], catalog, scope)
    read = take(batch, np.flatnonzero((batch.time >= needed.begin) & (batch.time <= needed.end)))
    event(f"all is read: {len(read) == len(batch)}")
    assert inside(found(catalog, read), scope) == inside(found(catalog, batch), scope)


@LONG
@given(st.data())
def test_shedding_changes_nothing_outside_of_what_is_compared(data: st.DataObject) -> None:
    catalog, batch = drawn(data)
    shed = between(data, batch)
    scope = scope_of(catalog.plans[0], catalog, shed)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))))
    left = take(batch, np.flatnonzero(kept | (batch.time < shed.begin) | (batch.time > shed.end)))
    whole, with_losses = found(catalog, batch), found(catalog, left)
    event(f"something changes: {whole != with_losses}")
    assert whole - inside(whole, scope) == with_losses - inside(with_losses, scope)
