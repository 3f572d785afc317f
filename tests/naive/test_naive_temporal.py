"""The naive coalescer against examples worked out by hand."""

from tests.naive.temporal import TemporalQuery, coalesced

SCHEMAS = {"T": {"v": "integer", "k": "integer"}}


def events(*values):
    return [
        {"type": "T", "time": time, "source": 0, "offset": n, "attributes": {"v": v, "k": k}}
        for n, (time, k, v) in enumerate(values)
    ]  # fmt: skip


def intervals(query, *values):
    return [
        (one.time, dict(one.fields)["v"], one.start, one.end, one.truncated_start, one.truncated_end)
        for one in coalesced(query, events(*values), SCHEMAS)
    ]


def test_a_value_is_told_when_it_begins_and_when_it_has_ended():
    query = TemporalQuery(("v",), ("k",), range=10, slide=5)
    assert intervals(query, (0, 1, 7), (6, 1, 7), (12, 1, 8)) == [
        (5, 7, 0, 5, False, True),
        (15, 7, 5, 12, True, False),
        (15, 8, 12, 15, False, True),
    ]


def test_a_gap_becomes_part_of_the_interval_whatever_lay_in_it():
    query = TemporalQuery(("v",), ("k",), max_gap=2, range=100, slide=20)
    assert intervals(query, (0, 1, 7), (4, 1, 8), (6, 1, 7), (9, 1, 8)) == [
        (20, 7, 0, 9, False, False),
        (20, 8, 4, 6, False, False),
        (20, 8, 9, 20, False, True),
    ]


def test_a_count_window_ends_at_its_last_tuple():
    query = TemporalQuery(("v",), ("k",), range=3, slide=2, counted=True, everything=True)
    assert intervals(query, (0, 1, 7), (4, 1, 7), (6, 1, 7)) == [(4, 7, 0, 4, False, True), (6, 7, 0, 6, False, True)]
