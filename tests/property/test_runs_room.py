"""The tables of runs are swept when they are full, and matches are read off their nodes before: engines whose tables are always full find the same."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from app.cep.runs import store
from tests.property.test_whole_language import replayed, told
from tests.property.whole_language import is_valid_for, queries, streams


@settings(max_examples=max(40, settings.default.max_examples // 2))
@given(st.data())
def test_engines_without_room_find_the_same_in_the_same_order(data: st.DataObject) -> None:
    query = data.draw(queries())
    lines = data.draw(streams(query))
    assume(is_valid_for(query, lines))
    note(told(query, lines))
    with patch.object(store, "ROOM", 1), patch.object(store, "NODES_IN_CACHE", 64):
        tight = replayed(query, lines)
    assert tight == replayed(query, lines)
