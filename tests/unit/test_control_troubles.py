"""What went wrong outside is told by buckets, and arrives once at the driver."""

from app.control.messages.reports import StageReport, Trouble
from app.control.messages.totals import BatchTotals, add_up, joined, pack_report


def told(part: int, *troubles: Trouble) -> bytes:
    return pack_report(StageReport(3, "cep", part, troubles=troubles), ())


def test_troubles_of_one_kind_are_counted_together_and_the_first_reason_stands_for_all() -> None:
    owner = joined([told(0, Trouble("originals", 2, "timed out")), told(1, Trouble("originals", 1, "refused"), Trouble("other", 1))], 7)
    totals = add_up(3, [owner, told(2, Trouble("originals", 4, "gone"))], ())
    assert totals.troubles == {"originals": Trouble("originals", 7, "timed out"), "other": Trouble("other", 1)}
    assert BatchTotals.from_plain(totals.to_plain()) == totals


def test_a_batch_without_troubles_has_none() -> None:
    assert add_up(3, [joined([told(0), told(1)], 0)], ()).troubles == {}
