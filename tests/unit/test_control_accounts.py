"""Accounts of a batch that close, and each way in which they do not."""

from dataclasses import replace

from app.control.arrivals.accounts import MOST_ASKED, breaches, gaps, unread
from app.control.messages.reports import SourceProgress
from app.control.messages.totals import BatchTotals

WHOLE = BatchTotals(
    7,
    sources={1: SourceProgress(1, 10, 100, 5, 9, 40, 50)},
    counts={"consumed": 10, "matched": 6, "irrelevant": 4},
    handed=6,
    unpacked=6,
    records=3,
    sent=3,
)
PLANNED = {1: (40, 50)}


def accounts(totals: BatchTotals, planned=PLANNED, *, to_kafka: bool = True) -> list[str]:
    return [breach.account for breach in breaches(totals, planned, to_kafka=to_kafka)]


def test_a_whole_batch_closes():
    assert accounts(WHOLE) == []
    assert accounts(WHOLE, {1: (None, 50)}) == [], "where nobody knows the beginning"
    assert accounts(WHOLE, None) == []


def test_an_event_without_an_end_is_a_breach():
    assert accounts(replace(WHOLE, counts={"consumed": 10, "matched": 5, "irrelevant": 4})) == ["events"]


def test_rows_that_no_bucket_unpacked_are_a_breach():
    assert accounts(replace(WHOLE, unpacked=5)) == ["rows"]


def test_output_that_did_not_arrive_is_a_breach_where_it_was_sent_at_all():
    assert accounts(replace(WHOLE, sent=2)) == ["records"]
    assert accounts(replace(WHOLE, sent=0), to_kafka=False) == []


def test_records_that_were_not_planned_are_a_breach():
    assert accounts(WHOLE, {1: (41, 50)}) == ["offsets"]
    assert accounts(WHOLE, {1: (40, 49)}) == ["offsets"]
    assert accounts(WHOLE, {}) == ["offsets"], "a topic partition that was not planned at all"
    assert accounts(replace(WHOLE, sources={1: SourceProgress(1, 11, 100, 5, 9, 40, 50)})) == ["offsets"], "more than there are offsets"


def test_offsets_without_records_are_counted_and_no_breach():
    assert accounts(WHOLE, {1: (38, 52), 2: (0, 3)}) == []
    assert gaps(WHOLE, {1: (38, 52), 2: (0, 3), 3: (None, 9)}) == {1: 4, 2: 3}
    assert gaps(WHOLE, PLANNED) == {}


def test_a_record_where_nothing_was_read_is_a_breach_and_only_so_many_places_are_asked():
    asked = []

    def first(topic: str, partition: int, start: int, end: int) -> int | None:
        asked.append(partition)
        return start + 2 if partition == 3 else None

    (breach,) = unread({("readings", partition): (40, 50) for partition in range(3 * MOST_ASKED)}, first)
    assert (breach.account, "record at 42" in breach.text) == ("offsets", True)
    assert asked == list(range(MOST_ASKED))
