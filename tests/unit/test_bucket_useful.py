"""Candidates that can be part of no match do not reach the engine of a family."""

from __future__ import annotations

import numpy as np
import pytest

from app.asc.layout import ItemLayout
from app.asc.selected import Entries
from app.asc.selection import Selection
from app.bucket.useful import UsefulPairs
from app.query.plan import Catalog, Plan
from tests.naive.language import Item, Query
from tests.property.application_way import END, plan_of
from tests.property.event_arrays import event_batch
from tests.property.test_asc_lists import lists_of

KNOWN = {"A": {"k": "integer"}, "B": {"k": "integer"}, "C": {"k": "integer"}}
A, B, C = (Item((name,), name.lower()) for name in "ABC")
NOT_B = Item(("B",), "n", negated=True)


class Feeds:
    """One query, fed step by step: which of the events are worth it."""

    def __init__(self, *items: Item, within: int | None = 6) -> None:
        self.plan: Plan = plan_of(Query(items, within=within), KNOWN)
        self._selection = Selection(Catalog.of((self.plan,)), "input")
        self._useful = UsefulPairs(self.plan, (0,))
        self.candidates = 0

    def useful(self, events: str, watermark: int = END) -> list[str]:
        """Events as "type time", apart by commas; those that are left."""
        rows = [(name, int(time)) for name, time in (one.split() for one in events.split(","))]
        batch = event_batch(
            [{"type": name, "time": time, "source": 0, "offset": k, "attributes": {"k": 1}} for k, (name, time) in enumerate(rows)], KNOWN
        )
        with lists_of(1 << 10):
            selected = self._selection.select(batch)
        assert isinstance(selected.answer, Entries)
        pairs, candidates = self._useful.of(batch.time, selected.answer, ItemLayout.of(Catalog.of((self.plan,)), "input"), watermark)
        assert pairs[1].tolist() == [0] * len(pairs[0])
        assert pairs[0].tolist() == sorted(set(pairs[0].tolist()))
        self.candidates = int(candidates[0])
        return [f"{rows[row][0]} {rows[row][1]}" for row in pairs[0].tolist()]


def test_what_nothing_follows_within_the_window_is_left_out() -> None:
    feeds = Feeds(A, B)
    assert feeds.useful("A 0, A 10, B 12, A 20") == ["A 10", "B 12"]
    assert feeds.candidates == 4
    assert Feeds(A, B).useful("A 4, A 5, B 10") == ["A 5", "B 10"]


def test_what_nothing_came_before_within_the_window_is_left_out() -> None:
    assert Feeds(A, B).useful("B 0, A 1, B 6, B 7, B 8") == ["A 1", "B 6"]


def test_what_later_events_may_follow_is_kept() -> None:
    assert Feeds(A, B).useful("A 10, A 14, A 15, A 20", watermark=20) == ["A 15", "A 20"]
    assert Feeds(A, B).useful("A 10, A 20", watermark=END) == []
    assert Feeds(A, B, within=None).useful("A 10, A 20", watermark=25) == ["A 10", "A 20"]


def test_what_came_in_earlier_steps_counts() -> None:
    feeds = Feeds(A, B)
    assert feeds.useful("A 10, A 20", watermark=20) == ["A 20"]
    assert feeds.useful("B 25, B 26, B 27") == ["B 25"]


def test_every_step_of_the_way_must_be_there() -> None:
    feeds = Feeds(A, B, C, within=10)
    assert feeds.useful("A 0, C 1, A 2, B 3, B 20, A 21, C 22") == []
    assert feeds.useful("A 30, B 31, C 33, B 34") == ["A 30", "B 31", "C 33"]


@pytest.mark.parametrize("items", [(A, NOT_B, C), (NOT_B, A, C)])
def test_negated_events_are_kept_where_a_match_may_end_after_them(items: tuple[Item, ...]) -> None:
    assert Feeds(*items).useful("B 0, A 10, B 11, C 12, B 13, A 30") == (["A 10", "B 11", "C 12"])


def test_times_that_fall_do_no_harm() -> None:
    assert Feeds(A, B).useful("A 10, B 30, A 31, B 12") == ["A 10", "A 31", "B 12"]


def test_room_for_the_pairs_is_found_as_they_come() -> None:
    count = 5_000
    events = ", ".join(f"{'AB'[k % 2]} {k}" for k in range(count))
    feeds = Feeds(A, B)
    feeds._useful._per_entry = 0.0
    assert feeds.useful(events) == [one.strip() for one in events.split(",")]
    assert np.isfinite(feeds._useful._per_entry)
