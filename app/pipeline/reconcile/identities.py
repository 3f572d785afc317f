"""What stands on the topics against what is so: two sets of identities, and their differences. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from app.delivery.bounds import TopicAndPartition

Correction = Literal["", "reconciled", "retracted"]
"""What a record on a topic is: one of the application itself, or what a reconciliation added to it, or took back."""


class Kind(NamedTuple):
    """What is compared: the composite events of a query, or its timeouts."""

    query: str
    timeouts: bool = False


def type_of(kind: Kind, version: int, correction: Correction = "") -> str:
    """The ``ce_type`` of a record.

    >>> type_of(Kind("theft"), 2), type_of(Kind("theft", timeouts=True), 2, "retracted")
    ('cep.theft.v2', 'cep.theft.v2.timeout.retracted')
    """
    return f"cep.{kind.query}.v{version}{'.timeout' if kind.timeouts else ''}{correction and '.'}{correction}"


@dataclass(frozen=True, slots=True)
class Standing:
    """A record on a topic.

    Attributes:
        id: the composite event's, 16 bytes.
        correction: what the record is.
        place, offset: where it is.
        timestamp_ms: Kafka's: of two records of one identity in different topic partitions the later one counts; in the same one the one behind the other, whatever clocks say.
    """

    id: bytes
    correction: Correction
    place: TopicAndPartition
    offset: int
    timestamp_ms: int = 0


@dataclass(slots=True)
class Ledger:
    """Of one kind: what is so, and what stands on the topics.

    Attributes:
        true: identities that are found without shedding.
        own: identities that the application wrote itself.
        standing: by identity that stands on the topic and was not taken back, where.
    """

    true: set[bytes] = field(default_factory=set)
    own: set[bytes] = field(default_factory=set)
    standing: dict[bytes, tuple[TopicAndPartition, int]] = field(default_factory=dict)

    def read(self, records: Iterable[Standing]) -> None:
        """Takes note of what is on the topics, in any order."""
        last: dict[tuple[bytes, TopicAndPartition], Standing] = {}
        for one in sorted(records, key=lambda one: one.offset):
            if not one.correction:
                self.own.add(one.id)
            last[one.id, one.place] = one
        for one in sorted(last.values(), key=lambda one: (one.timestamp_ms, one.place)):
            if one.correction == "retracted":
                self.standing.pop(one.id, None)
            else:
                self.standing[one.id] = one.place, one.offset

    def difference(self) -> Difference:
        """What is to be done, and what shedding cost."""
        return Difference(
            len(self.true),
            len(self.own),
            len(self.own & self.true),
            frozenset(self.true - self.standing.keys()),
            {id_: at for id_, at in self.standing.items() if id_ not in self.true},
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one kind.

    Attributes:
        true: how many are found without shedding.
        published: how many the application wrote itself.
        published_true: how many of these are found without shedding.
        missing: identities that do not stand on the topic and should.
        false: identities that stand on it and should not, and where.
    """

    true: int
    published: int
    published_true: int
    missing: frozenset[bytes]
    false: dict[bytes, tuple[TopicAndPartition, int]]

    @property
    def recall(self) -> float | None:
        """Share of the true ones that the application wrote; None where there are none."""
        return self.published_true / self.true if self.true else None

    @property
    def precision(self) -> float | None:
        """Share of those that it wrote that are true; None where it wrote none."""
        return self.published_true / self.published if self.published else None
