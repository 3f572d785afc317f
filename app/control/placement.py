"""Which owner has which bucket. Pure: the driver says who is there, and asks at the border of two batches.

Every holding has an epoch, greater than all before: what an owner writes carries it, so an owner that was replaced while it hung writes nothing that
anybody reads. A bucket stays where it is as long as its owner is there; when owners join, some move, a few per batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOVES_PER_BATCH = 2
"""Buckets that may move to a new owner at one border, though nobody was lost: each is rebuilt from storage inside the batch."""


@dataclass(frozen=True, slots=True, order=True)
class OwnerId:
    """An owner process: its address, and which process it is there (another one takes a slot over when it ends)."""

    host: str
    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Holding:
    """That an owner holds a bucket.

    Attributes:
        epoch: greater than that of every holding of any bucket before.
        why: ``start``, ``lost`` (the owner before is gone), ``moved``.
    """

    owner: OwnerId
    epoch: int
    why: str


class Placement:
    """Buckets and their owners.

    Args:
        buckets: how many there are.
        first_epoch: greater than all that earlier runs of the driver gave.
    """

    def __init__(self, buckets: int, first_epoch: int) -> None:
        self._owners: set[OwnerId] = set()
        self._holdings: dict[int, Holding] = {}
        self._why = dict.fromkeys(range(buckets), "start")
        self._epoch = first_epoch

    @property
    def owners(self) -> frozenset[OwnerId]:
        """Who is there."""
        return frozenset(self._owners)

    @property
    def holdings(self) -> Mapping[int, Holding]:
        """By bucket."""
        return dict(self._holdings)

    def by_owner(self) -> dict[OwnerId, dict[int, Holding]]:
        """By owner that holds any, its buckets, all in order."""
        found: dict[OwnerId, dict[int, Holding]] = {}
        for bucket, holding in sorted(self._holdings.items()):
            found.setdefault(holding.owner, {})[bucket] = holding
        return dict(sorted(found.items()))

    def join(self, owner: OwnerId) -> None:
        """An owner is there. It gets its share of buckets at the next borders."""
        self._owners.add(owner)

    def lose(self, owner: OwnerId) -> None:
        """An owner is gone, or given up."""
        self._owners.discard(owner)
        for bucket in [bucket for bucket, holding in self._holdings.items() if holding.owner == owner]:
            del self._holdings[bucket]
            self._why[bucket] = "lost"

    def assign_buckets(self, moves: int = MOVES_PER_BATCH) -> bool:
        """Gives every bucket an owner, and new owners some of others' buckets; False when there is no owner at all.

        Args:
            moves: buckets that may move from owners that have more than their share.
        """
        if not self._owners:
            return False
        for bucket in sorted(self._why):
            self._hold(bucket, self._least_loaded(), self._why[bucket])
        self._why.clear()
        for _ in range(moves):
            load = self.load()
            poorest = self._least_loaded()
            richest = max(sorted(self._owners), key=lambda owner: load[owner])
            if load[richest] - load[poorest] < 2:  # fewer would only swap
                break
            bucket = max(bucket for bucket, holding in self._holdings.items() if holding.owner == richest)
            self._hold(bucket, poorest, "moved")
        return True

    def load(self) -> dict[OwnerId, int]:
        """By owner, the number of its buckets."""
        load = dict.fromkeys(self._owners, 0)
        for holding in self._holdings.values():
            load[holding.owner] += 1
        return load

    def validate(self) -> None:
        """Invariants after `assign_buckets`.

        Raises:
            AssertionError: one does not hold.
        """
        epochs = [holding.epoch for holding in self._holdings.values()]
        assert len(set(epochs)) == len(epochs), "an epoch is given once"  # noqa: S101
        assert {holding.owner for holding in self._holdings.values()} <= self._owners, "holders are there"  # noqa: S101
        assert not self._holdings.keys() & self._why.keys(), "a bucket has an owner or waits for one"  # noqa: S101

    def _hold(self, bucket: int, owner: OwnerId, why: str) -> None:
        self._epoch += 1
        self._holdings[bucket] = Holding(owner, self._epoch, why)

    def _least_loaded(self) -> OwnerId:
        """With fewest buckets; among those the one whose executor has fewest, so that buckets spread over machines first."""
        load = self.load()
        by_host: dict[str, int] = {}
        for owner, number in load.items():
            by_host[owner.host] = by_host.get(owner.host, 0) + number
        return min(sorted(self._owners), key=lambda owner: (load[owner], by_host[owner.host]))
