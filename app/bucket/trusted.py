"""Trusted order: groups of a stream whose producers write each key in time order (`ordered_by`) are fed as events arrive. What is earlier than its key's predecessor is late, which only buckets know."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.bucket import kernels
from app.bucket.hold import NEVER, KeyOrder, TimeRules
from app.bucket.route import bucket_of, partition_keys
from app.events.batch import EventBatch
from app.query.plan import Catalog, Plan, QueryGroup
from app.query.reach import goes_by_others

BEFORE = "@before"
"""Rider of trusted groups: the greatest time of the event's predecessors of the same key in its batch, ms."""
SILENT = "@silent"
"""Rider of trusted groups: whether it is another group's affair to tell that the event is late, since that one uses it as well."""
UNBOUNDED_MS = 1 << 60
"""Slack of a trusted group that never forgets anything."""


def trusted(catalog: Catalog, group: QueryGroup, rules: TimeRules) -> bool:
    """Whether the group is fed as events arrive: it reads this stream alone, and all its items carry all partition attributes.

    An event that lacks one belongs to many partitions of the engine, and over several keys arrival is no order of time. Temporal queries are
    evaluated for all keys at one time, so they wait for the watermark anyway.
    """
    if group.temporal or rules.ordered_by is None or group.streams != (rules.stream,) or rules.ordered_by not in group.equivalence:
        return False
    if group.ranks == "stream":
        return False  # what counts is the order of all events
    return not any(item.lacks for query in group.queries for item in catalog.plans[query].items)


def trusted_slack_ms(catalog: Catalog, group: QueryGroup) -> int:
    """How far an event of a trusted group may be behind its own partition's watermark and still be fed.

    What counts is the order within a key, so keys may drift apart. But engines forget what is older than the window, and decide negated
    ends, timeouts and windows at the watermark: an event from before that would be matched or not depending on how the input was cut into
    batches. Who reads the composite events waits for the watermark as well, and not a window longer.
    """
    plans = [catalog.plans[query] for query in group.queries]
    return 0 if group.composed or any(map(_decides_by_time, plans)) else max(map(slack_ms, plans))


def _decides_by_time(plan: Plan) -> bool:
    """Whether what the query finds may wait for the watermark."""
    return plan.on_timeout == "emit" or plan.items[-1].negated or goes_by_others(plan)


def slack_ms(plan: Plan) -> int:
    """What a query alone would allow; `UNBOUNDED_MS` without a window in time: then its group forgets no key."""
    return UNBOUNDED_MS if plan.within is None or plan.within.unit != "ms" else plan.within.size


def key_group(group: QueryGroup, rules: TimeRules) -> QueryGroup:
    """The group as if only the attribute that the stream is ordered by partitioned it: whose keys' order is trusted."""
    return replace(group, equivalence=(rules.ordered_by or "",))


@dataclass(frozen=True, slots=True, eq=False)
class KeyHistory:
    """What a trusted group's buckets must know of events that they do not get: every event counts as its key's predecessor.

    Attributes:
        before: int64 (events of the batch,), greatest time of the predecessors in the batch; None when every bucket gets all of its keys' events.
        keys: uint64 (keys,), of events that are not sent.
        times: int64 (keys,), their greatest times, ms.
        routed: the keys are those by which events are routed; otherwise every bucket must know all of them.
    """

    before: NDArray[np.int64] | None
    keys: NDArray[np.uint64]
    times: NDArray[np.int64]
    routed: bool = True

    def of_bucket(self, number: int, buckets: int, home: int | None) -> KeyHistory:
        """What one bucket must know."""
        if home is not None:
            return self if number == home else NO_HISTORY
        if not self.routed or buckets == 1 or not len(self.keys):
            return self
        own = bucket_of(self.keys, buckets) == number
        return KeyHistory(self.before, self.keys[own], self.times[own])


NO_HISTORY = KeyHistory(None, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))


def key_history(batch: EventBatch, group: QueryGroup, late: NDArray[np.bool_], sent: NDArray[np.int64], routed: bool) -> KeyHistory:  # noqa: FBT001
    """Looks at all on-time events of a batch, in order of arrival.

    Args:
        batch: of the ingress task.
        group: see `key_group`.
        late: bool (events,), late for the group.
        sent: int64, rows that are sent to buckets.
        routed: whether the group is partitioned by this key alone.
    """
    hidden = ~late
    if routed:
        hidden[sent] = False
        if not hidden.any():
            return NO_HISTORY
    rows = np.flatnonzero(~late)
    found = partition_keys(batch, rows, group)
    keyed = found.reach == kernels.ROUTED
    rows, hashes = rows[keyed], found.hashes[keyed]
    times = batch.time[rows]
    earlier = np.full(len(rows), NEVER, dtype=np.int64)
    KeyOrder().late(hashes, times, earlier)
    before = np.full(len(batch), NEVER, dtype=np.int64)
    before[rows] = earlier
    told = hidden[rows]
    return KeyHistory(before, *KeyOrder(hashes[told], times[told]).contents(), routed)


def behind_keys(batch: EventBatch, group: QueryGroup, late: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bool (events,): on time, and yet earlier than an event before it of the same key; arguments as of `key_history`."""
    rows, behind = np.flatnonzero(~late), np.zeros(len(batch), dtype=np.bool_)
    behind[rows] = KeyOrder().late(partition_keys(batch, rows, group).hashes, batch.time[rows])
    return behind


def times_before(batch: EventBatch) -> NDArray[np.int64]:
    """Of trusted groups, int64 (events,): the greatest time of each event's predecessors that were not sent with it."""
    column = batch.columns.get(BEFORE)
    if column is None:
        return np.full(len(batch), NEVER, dtype=np.int64)
    values = column.values.astype(np.int64)
    return values if column.state is None else np.where(column.state == 0, values, NEVER)


def told_here(batch: EventBatch) -> NDArray[np.bool_]:
    """Of trusted groups, bool (events,): whether it is this group that tells of an event that is late."""
    column = batch.columns.get(SILENT)
    if column is None:
        return np.ones(len(batch), dtype=np.bool_)
    silent = column.values != 0
    return ~(silent if column.state is None else silent & (column.state == 0))
