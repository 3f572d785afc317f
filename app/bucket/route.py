"""Which events go to which bucket: by query group and by the content of the partition key, the same on every machine for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from app.bucket import kernels
from app.cep.matches import Matches
from app.events.batch import PRESENT, Column, EventBatch
from app.events.hashes import entry_hashes
from app.query.plan import QueryGroup

NO_STATE = np.zeros(0, dtype=np.uint8)


def group_identity(group: QueryGroup) -> int:
    """A 64-bit hash of what makes the group one: its streams, its partition attributes, what it counts, whether it is temporal, whether composed.

    Not its number, which changes when other queries come or go.
    """
    return _hash(group, ("\x1b",) if group.composed else ())


def key_seed(group: QueryGroup) -> int:
    """What the hashes of the group's keys begin with: its identity, but whether others read its queries says nothing about a key."""
    return _hash(group, ())


def _hash(group: QueryGroup, more: tuple[str, ...]) -> int:
    counted = () if group.ranks == "none" else ("\x1d", group.ranks)
    temporal = ("\x1c",) if group.temporal else ()
    text = "\x1f".join((*group.streams, "\x1e", *group.equivalence, *counted, *temporal, *more))
    return int.from_bytes(sha256(text.encode()).digest()[:8], "little")


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Partition keys of some rows of a batch, as hashes.

    Attributes:
        hashes: uint64 (rows,).
        reach: uint8 (rows,) of `kernels.ROUTED`, ``EVERYWHERE``, ``NOWHERE``.
    """

    hashes: NDArray[np.uint64]
    reach: NDArray[np.uint8]


def partition_keys(batch: EventBatch, rows: NDArray[np.int64], group: QueryGroup) -> Keys:
    """Hashes the partition attributes of the given rows, in the order of the group's attributes.

    A row with a null one goes nowhere; a row whose type lacks one (only negated types may) goes everywhere. A group that counts all
    events of its streams has one place for all of them. Of temporal queries nulls are equal to each other: every row has a bucket.
    Integers that engines take for floats (`QueryGroup.floats`) are hashed as these: beyond 2^53 several of them are one key.
    """
    hashes = np.full(len(rows), key_seed(group), dtype=np.uint64)
    reach = np.zeros(len(rows), dtype=np.uint8)
    if group.ranks == "stream":
        return Keys(hashes, reach)
    for attribute in group.equivalence:
        column = batch.columns.get(attribute)
        if column is None:
            np.maximum(reach, kernels.EVERYWHERE, out=reach)
            continue
        state = NO_STATE if column.state is None else column.state
        values = np.ascontiguousarray(column.values)
        if column.dictionary is not None:
            kernels.mix_codes(values.astype(np.int32, copy=False), entry_hashes(column.dictionary), state, rows, hashes, reach)
        elif values.dtype.kind == "f" or attribute in group.floats:
            kernels.mix_floats(values.astype(np.float64, copy=False), state, rows, hashes, reach)
        else:
            kernels.mix_integers(values.astype(np.int64, copy=False), state, rows, hashes, reach)
    if group.temporal:
        reach[:] = kernels.ROUTED
    return Keys(hashes, reach)


def keys_of_matches(matches: Matches, group: QueryGroup) -> NDArray[np.uint64]:
    """Hashes of the partitions that matches of a query of the group are in, uint64 (matches,): those of `partition_keys`."""
    rows = np.zeros(len(matches), np.int64)
    as_events = EventBatch(matches.time, rows, rows, matches.events.type, matches.key)
    return partition_keys(as_events, np.arange(len(matches)), group).hashes


def in_partitions(batch: EventBatch, group: QueryGroup) -> NDArray[np.bool_] | None:
    """Bool (events,): whether an event has all partition attributes of the group, none of them null (or NaN). None: all have."""
    found: NDArray[np.bool_] | None = None
    for attribute in group.equivalence:
        column = batch.columns.get(attribute)
        if column is None:
            return np.zeros(len(batch), dtype=np.bool_)
        for has in (None if column.state is None else column.state == PRESENT, _numbers(column)):
            if has is not None:
                found = has if found is None else found & has
    return None if found is None or found.all() else found


def _numbers(column: Column) -> NDArray[np.bool_] | None:
    return None if column.values.dtype.kind != "f" else ~np.isnan(column.values)


def bucket_of(hashes: NDArray[np.uint64], buckets: int) -> NDArray[np.int64]:
    """The bucket of each key hash.

    >>> bucket_of(np.array([5, 8], dtype=np.uint64), 4).tolist()
    [1, 0]
    """
    return (hashes % np.uint64(buckets)).astype(np.int64)


def home_of(group: QueryGroup, buckets: int) -> int | None:
    """The bucket of all events of a group that has one place; None where keys decide.

    Queries that read each other are all in bucket 0: whoever else began to be read would move the others.
    """
    if group.composed:
        return 0
    return group_identity(group) % buckets if group.ranks == "stream" else None


def rows_by_bucket(keys: Keys, buckets: int, home: int | None = None) -> Sequence[NDArray[np.int64]]:
    """Per bucket the positions (in ``keys``, ascending) of the rows that go there; see `home_of`."""
    if home is not None:
        everything = np.flatnonzero(keys.reach != kernels.NOWHERE)
        return [everything if number == home else everything[:0] for number in range(buckets)]
    number = bucket_of(keys.hashes, buckets)
    if not keys.reach.any():
        if buckets == 1:
            return [np.arange(len(number))]
        order = np.argsort(number.astype(np.uint16), kind="stable")  # radix sort
        bounds = np.searchsorted(number[order], np.arange(buckets + 1))
        return [order[bounds[k] : bounds[k + 1]] for k in range(buckets)]
    everywhere = keys.reach == kernels.EVERYWHERE
    routed = keys.reach == kernels.ROUTED
    return [np.flatnonzero((routed & (number == k)) | everywhere) for k in range(buckets)]
