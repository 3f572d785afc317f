"""Accounts of a batch against the outside: what Spark planned, what tasks handed out, what was told and what arrived.

The events' own account (`BatchTotals.unaccounted`) is kept by those who count, so it can only find that an end was forgotten. These compare figures
that come from different hands.

Consumed records of a topic partition are not Spark's end minus start offset: markers of transactions, aborted and compacted records have offsets as well, Kafka
tells nobody which offsets these are, and a topic partition that never had any gets them with its first transactional producer. So what is too much is a breach, and
what is too little is counted (`gaps`). Of too little two things are known for certain. Spark's own number of rows must be that of the tasks (the account ``source``),
which finds records that are lost between the two, but is told when the batch is committed already. And where nothing at all came of a planned topic partition, as when a task's
report is lost, the broker is asked for a record there (`unread`): if it shows one, that is a breach of the batch; if not, there were markers only. It is asked while the batch is open, so only of whole partitions,
which is rare, and not where `kafka.fail_on_data_loss` allows that records go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.control.messages.totals import BatchTotals

ACCOUNTS = ("events", "offsets", "rows", "records", "source")
"""What is held against each other, in stable words."""


@dataclass(frozen=True, slots=True)
class Breach:
    """An account that does not close.

    Attributes:
        account: one of `ACCOUNTS`.
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
    """Nobody reads what was not planned, or more than that. Less is possible, see above."""
    found = []
    for number, source in totals.sources.items():
        start, end = planned.get(number, (None, 0))
        outside = (start is not None and (source.first_offset or 0) < start) or (source.next_offset or 0) > end
        if outside or (start is not None and source.events > end - start):
            read = f"{source.events} records at offsets {source.first_offset} to {source.next_offset} were read"
            found.append(Breach("offsets", f"source {number}: {read}, {start} to {end} were planned"))
    return found


First = Callable[[str, int, int, int], int | None]
"""Of topic, partition, and the offsets from and to: the offset of the first record that the broker shows there; None where it shows none, or does not answer."""
MOST_ASKED = 8
"""Topic partitions per batch: whoever loses reports loses many, and one is enough to know."""


def unread(places: Mapping[tuple[str, int], tuple[int, int]], first: First) -> list[Breach]:
    """Topic partitions that were planned, of which nothing came, and which hold a record.

    Args:
        places: topic partitions of which nothing came, and their planned offsets.
        first: asks the broker.

    >>> unread({("a", 0): (5, 9), ("a", 1): (0, 1)}, lambda topic, partition, start, end: 7 if end == 9 else None)
    [Breach(account='offsets', text='a/0: offsets 5 to 9 were planned and nothing was read, though there is a record at 7')]
    """
    found = []
    for (topic, partition), (start, end) in sorted(places.items())[:MOST_ASKED]:
        offset = first(topic, partition, start, end)
        if offset is not None:
            text = f"{topic}/{partition}: offsets {start} to {end} were planned and nothing was read, though there is a record at {offset}"
            found.append(Breach("offsets", text))
    return found


def gaps(totals: BatchTotals, planned: Planned) -> dict[int, int]:
    """By source, the offsets that were planned and held no record: markers of transactions, aborted or compacted records."""
    read = {number: source.events for number, source in totals.sources.items()}
    expected = {number: end - start for number, (start, end) in planned.items() if start is not None}
    return {number: count - read.get(number, 0) for number, count in expected.items() if count > read.get(number, 0)}
