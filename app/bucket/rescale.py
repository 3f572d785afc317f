"""A whole state, moved: to another number of buckets, or to where its query groups live under another catalog. Pure: snapshots in, snapshots out.

A query that others begin to read, or cease to, lives elsewhere than before (`route.home_of`): all of its partitions move to one bucket, or back to those
of their keys. That, and another number of buckets, is one operation: what all buckets hold of a query is put together, and handed out again.

Composite events are those of a run in which nothing was moved. What is told once by all buckets together (held events, key times, matches that wait) moves
with its partition; what every bucket holds (negated events of no partition, times of streams) every bucket has again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.asc.layout import ItemLayout
from app.bucket import kernels
from app.bucket.audited import forgotten
from app.bucket.chunk import pack_events, unpack_events
from app.bucket.composition import merged_orders
from app.bucket.draining import merged_cuts
from app.bucket.engines import merged_states, parted_state
from app.bucket.hold import KeyOrder, TimeRules, merged_times
from app.bucket.moved import Bits, moved_bits, places_of
from app.bucket.route import bucket_of, group_identity, home_of, key_seed, partition_keys
from app.bucket.snapshot import described, description_part, pack_parts, unpack_parts
from app.bucket.temporal import MemoryOf
from app.bucket.trusted import key_group, trusted
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import EVERYWHERE
from app.errors import SnapshotError
from app.events.batch import EventBatch, concatenate, take
from app.query.plan import Catalog, QueryGroup

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _State:
    """A bucket's snapshot, opened."""

    header: Mapping[str, Any]
    parts: Mapping[str, Buffer]

    @staticmethod
    def of(snapshot: Buffer) -> _State:
        """What a snapshot says.

        Raises:
            SnapshotError: it is none, damaged, or of a newer version.
        """
        parts = unpack_parts(snapshot)
        return _State(described(parts), parts)


def moved_groups(before: Catalog, after: Catalog) -> tuple[str, ...]:
    """Names of the queries of which the state lives elsewhere under the catalog ``after``: `rescaled` must move it before a bucket goes on."""
    lived = {
        (before.plans[query].name, before.plans[query].fingerprint): group.composed for group in before.groups for query in group.queries
    }
    lives = {(after.plans[query].name, after.plans[query].fingerprint): group.composed for group in after.groups for query in group.queries}
    return tuple(sorted(name for (name, fingerprint), composed in lives.items() if lived.get((name, fingerprint), composed) != composed))


def rescaled(
    snapshots: Sequence[Buffer], catalog: Catalog, rules: Sequence[TimeRules], buckets: int, memory_of: MemoryOf | None = None
) -> list[bytes]:
    """The snapshots of all buckets as those of ``buckets`` buckets under a catalog.

    Args:
        snapshots: `Bucket.snapshot` of every bucket, all after the same batch.
        catalog: under which they are to go on.
        rules: of every stream that it reads.
        buckets: how many there are to be.
        memory_of: makes the bounded memory of temporal queries that ask for one.

    Raises:
        SnapshotError: what a query holds cannot be moved (its name is in the message), or something is no snapshot.
    """
    states = [_State.of(data) for data in snapshots]
    parts: list[dict[str, Buffer]] = [{} for _ in range(buckets)]
    groups: list[list[dict[str, Any]]] = [[] for _ in range(buckets)]
    by_stream = {rule.stream: rule for rule in rules}
    for group in catalog.groups:
        move = _Move(catalog, group, by_stream.get(group.streams[0]), buckets, memory_of)
        move.hand_out(states, parts, groups)
    streams = dict.fromkeys(stream for state in states for stream in state.header["greatest"])
    shared = {
        "greatest": {
            stream: sorted(merged_times([dict(s.header["greatest"].get(stream, ())) for s in states]).items()) for stream in streams
        },
        "watermark": {stream: max(s.header["watermark"][stream] for s in states if stream in s.header["watermark"]) for stream in streams},
        "drains": merged_cuts([state.header["drains"] for state in states]),
    }
    orders = merged_orders([{name: part for name, part in state.parts.items() if name.startswith("order-")} for state in states])
    parts[0] |= orders  # queries that read each other live there
    return [_packed({**shared, "groups": own}, held) for own, held in zip(groups, parts, strict=True)]


def _packed(description: Mapping[str, Any], parts: Mapping[str, Buffer]) -> bytes:
    return pack_parts([description_part(description), *((name, [data]) for name, data in sorted(parts.items()))])


@dataclass(frozen=True, slots=True)
class _Found:
    """What one old bucket holds of a new group's queries.

    Attributes:
        described: the old group, as the snapshot's header has it.
        queries: those of the new group that were in it, with their places in its bitmaps: word, shift, items.
    """

    bucket: int
    state: _State
    described: Mapping[str, Any]
    queries: Mapping[int, Bits]

    @property
    def name(self) -> str:
        return f"{self.described['identity']:016x}"


@dataclass(frozen=True, slots=True)
class _Move:
    """One query group of the new catalog, and where what is held of its queries goes."""

    catalog: Catalog
    group: QueryGroup
    rules: TimeRules | None
    buckets: int
    memory_of: MemoryOf | None

    def hand_out(self, states: Sequence[_State], parts: list[dict[str, Buffer]], groups: list[list[dict[str, Any]]]) -> None:
        """Writes the group's share of every new bucket."""
        found = [one for bucket, state in enumerate(states) for one in self._found(bucket, state)]
        found = [one for one in found if self._had_home(one, len(states)) in (None, one.bucket)]
        known = {query for one in found for query in one.queries}
        if not known:
            return
        layout, name = ItemLayout.of_group(self.catalog, self.group), f"{group_identity(self.group):016x}"
        places = []
        for query in sorted(known):
            plan, place = self.catalog.plans[query], layout.place[query]
            places.append([plan.name, plan.fingerprint, layout.word[place], layout.shift[place], layout.items[place]])
            for bucket, data in self._engines(query, found).items():
                parts[bucket][f"engine-{plan.name}-{plan.fingerprint}"] = data
        held, bitmaps = _joined([self._held(one, layout) for one in found], layout.words)
        owners = self.owners(held)
        times = self._key_times(found)
        pending = sum(int(one.described["pending"]) for one in found)
        audits = [(one.name, one.state.parts, one.described["audit"]) for one in found if "audit" in one.described]
        audit = {"audit": forgotten(audits)} if audits else {}
        for bucket in self._places():
            rows = np.flatnonzero((owners == bucket) | (owners == EVERYWHERE))
            parts[bucket][f"held-{name}"] = pack_events(take(held, rows), bitmaps[rows])
            if times is not None:
                keys, last = times.contents()
                own = self._keys_of(bucket, keys)
                parts[bucket][f"keys-{name}"], parts[bucket][f"times-{name}"] = keys[own].tobytes(), last[own].tobytes()
            groups[bucket].append({"identity": group_identity(self.group), "pending": pending, "queries": places, **audit})

    def owners(self, events: EventBatch) -> Integers:
        """Per event the bucket that gets it; `EVERYWHERE`: all."""
        if self._home is not None:
            return np.full(len(events), self._home, np.int64)
        keys = partition_keys(events, np.arange(len(events)), self.group)
        return np.where(keys.reach == kernels.EVERYWHERE, EVERYWHERE, bucket_of(keys.hashes, self.buckets))

    @property
    def _home(self) -> int | None:
        return _place_of(self.group, self.buckets)

    def _places(self) -> Sequence[int]:
        """The new buckets that hold something of the group."""
        return range(self.buckets) if self._home is None else (self._home,)

    def _had_home(self, one: _Found, buckets: int) -> int | None:
        """The old bucket that alone held the old group; the others hold nothing but empty engines."""
        other = replace(self.group, composed=not self.group.composed)
        old = self.group if one.described["identity"] == group_identity(self.group) else other
        return _place_of(old, buckets)

    def _found(self, bucket: int, state: _State) -> Iterable[_Found]:
        wanted = {(self.catalog.plans[query].name, self.catalog.plans[query].fingerprint): query for query in self.group.queries}
        for group in state.header["groups"]:
            named: dict[tuple[str, str], Bits] = {(place[0], place[1]): tuple(place[2:]) for place in group["queries"]}
            queries = {wanted[key]: place for key, place in named.items() if key in wanted}
            if queries:
                yield _Found(bucket, state, group, queries)

    def _engines(self, query: int, found: Sequence[_Found]) -> dict[int, Buffer]:
        """What new buckets get of a query."""
        plan = self.catalog.plans[query]
        name = f"engine-{plan.name}-{plan.fingerprint}"
        states = [one.state.parts[name] for one in found if query in one.queries and name in one.state.parts]
        try:
            whole = merged_states(plan, states, self.memory_of)
            if self._home is not None:
                return {self._home: whole}
            return dict(enumerate(parted_state(plan, whole, self.owners, self.buckets, self.memory_of)))
        except SnapshotError as error:
            raise SnapshotError(f'the state of query "{plan.name}" cannot be moved to other buckets: {error}') from error

    def _held(self, one: _Found, layout: ItemLayout) -> tuple[EventBatch, NDArray[np.uint64]]:
        batch, old = unpack_events(one.state.parts[f"held-{one.name}"])
        there = places_of(layout)
        moves = [(place, there[layout.names[layout.place[query]]]) for query, place in one.queries.items()]
        bitmaps = moved_bits(old, moves, layout.words)
        wanted = np.flatnonzero(np.ones(len(batch), dtype=np.bool_) if self.group.ranks != "none" else bitmaps.any(axis=1))
        return take(batch, wanted), bitmaps[wanted]

    def _key_times(self, found: Sequence[_Found]) -> KeyOrder | None:
        """Of a trusted group: the last times of all keys."""
        if self.rules is None or not trusted(self.catalog, self.group, self.rules):
            return None
        order = KeyOrder()
        for one in found:
            if f"keys-{one.name}" in one.state.parts:
                keys = np.frombuffer(one.state.parts[f"keys-{one.name}"], dtype=np.uint64)
                order.late(keys, np.frombuffer(one.state.parts[f"times-{one.name}"], dtype=np.int64))
        return order

    def _keys_of(self, bucket: int, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which keys a bucket must know: its own where they are those of the partitions, otherwise all (`KeyHistory.of_bucket`)."""
        if self._home is not None:
            return np.full(len(keys), bucket == self._home)
        assert self.rules is not None, "only trusted groups know keys"  # noqa: S101
        routed = key_group(self.group, self.rules).equivalence == self.group.equivalence
        return bucket_of(keys, self.buckets) == bucket if routed else np.ones(len(keys), np.bool_)


def _place_of(group: QueryGroup, buckets: int) -> int | None:
    """The one bucket that holds a group; None where keys decide. Without partition attributes there is one key."""
    home = home_of(group, buckets)
    return key_seed(group) % buckets if home is None and not group.equivalence else home


def _joined(parts: Sequence[tuple[EventBatch, NDArray[np.uint64]]], words: int) -> tuple[EventBatch, NDArray[np.uint64]]:
    """Held events of several buckets or groups: what several hold, once, as a candidate of all that it is one of."""
    whole, bitmaps = (
        concatenate([batch for batch, _ in parts]),
        np.concatenate([np.zeros((0, words), np.uint64), *(bits for _, bits in parts)]),
    )
    if not len(whole):
        return whole, bitmaps
    places = np.stack([whole.source, whole.offset], axis=1)
    _, first, number = np.unique(places, axis=0, return_index=True, return_inverse=True)
    together = np.zeros((len(first), words), np.uint64)
    np.bitwise_or.at(together, number.reshape(-1), bitmaps)
    order = np.argsort(first, kind="stable")
    return take(whole, first[order]), together[order]
