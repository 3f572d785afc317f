"""Accounts of a batch against the outside: what Spark planned, what tasks handed out, what was told and what arrived.

The events' own account (`BatchTotals.unaccounted`) is kept by those who count, so it can only find that an end was forgotten. These compare figures
that come from different hands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.control.totals import BatchTotals


@dataclass(frozen=True, slots=True)
class Breach:
    """An account that does not close.

    Attributes:
        account: a stable word: ``events``, ``offsets``, ``rows``, ``records``, ``source``.
        text: the figures.
    """

    account: str
    text: str


Planned = Mapping[int, tuple[int | None, int]]
"""By source, the first offset of the batch (None where Spark does not say) and the one after its last."""


def breaches(totals: BatchTotals, planned: Planned | None, *, to_kafka: bool) -> list[Breach]:
    """What does not close in a batch.

    Args:
        totals: of the batch.
        planned: by Spark; None where its source has no offsets.
        to_kafka: whether output went to Kafka, so that its arrival was counted.

    >>> breaches(BatchTotals(3, handed=5, unpacked=4), None, to_kafka=False)
    [Breach(account='rows', text='tasks handed out 5 rows, buckets unpacked 4')]
    """
    found = []
    if missing := totals.unaccounted():
        found.append(Breach("events", f"{missing} of {totals.counts.get('consumed', 0)} consumed events have no end"))
    if totals.handed != totals.unpacked:
        found.append(Breach("rows", f"tasks handed out {totals.handed} rows, buckets unpacked {totals.unpacked}"))
    if to_kafka and totals.records != totals.sent:
        found.append(Breach("records", f"{totals.records} records were told, {totals.sent} arrived"))
    return found if planned is None else [*found, *_offsets(totals, planned)]


def _offsets(totals: BatchTotals, planned: Planned) -> list[Breach]:
    """Nobody reads what was not planned, or more than that. Less is possible: markers of transactions and compacted records have offsets too."""
    found = []
    for number, source in totals.sources.items():
        start, end = planned.get(number, (None, 0))
        outside = (start is not None and (source.first_offset or 0) < start) or (source.next_offset or 0) > end
        if outside or (start is not None and source.events > end - start):
            read = f"{source.events} records at offsets {source.first_offset} to {source.next_offset} were read"
            found.append(Breach("offsets", f"source {number}: {read}, {start} to {end} were planned"))
    return found


def gaps(totals: BatchTotals, planned: Planned) -> dict[int, int]:
    """By source, the offsets that were planned and held no record: markers of transactions, aborted or compacted records."""
    read = {number: source.events for number, source in totals.sources.items()}
    expected = {number: end - start for number, (start, end) in planned.items() if start is not None}
    return {number: count - read.get(number, 0) for number, count in expected.items() if count > read.get(number, 0)}
