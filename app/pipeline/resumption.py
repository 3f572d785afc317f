"""How a checkpoint goes on where topics came, went, or were created again: numbers, and where Spark goes on reading. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from app.errors import Finding
from app.owners.spark_log import Offsets
from app.pipeline.numbers import Numbers
from app.pipeline.offsets import Correction


@dataclass(frozen=True, slots=True)
class Kafka:
    """The topics that are to be read, as the broker has them.

    Attributes:
        ids: by topic; missing where the broker tells none.
        earliest: by topic partition, the first offset that is still there.
    """

    ids: Mapping[str, str]
    earliest: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Resumption:
    """What is to be done, in this order, so that whoever is interrupted does the same again.

    Attributes:
        noted: the registry with the places where topics were left: stored first.
        correction: of Spark's log.
        numbers: the registry from then on.
        lost: what was not read and is gone.
    """

    noted: Numbers
    correction: Correction
    numbers: Numbers
    lost: tuple[Finding, ...] = ()


def resumption(numbers: Numbers, read: Collection[str], kafka: Kafka, logged: Offsets, unimportant: Collection[str] = ()) -> Resumption:
    """Decides.

    * A topic that is no longer read is left out of Spark's log, and where it was left is kept: when it is read again, it goes on there.
    * A topic that was created again gets a new number, and is read from its beginning.
    * A topic that is new is read from its beginning, though Spark would take what had been deleted before for lost.
    * A topic of which nothing can be lost is read from where it begins now: heartbeats that nobody read expire within an hour.

    Args:
        numbers: of the checkpoint.
        read: names of the topics that are to be read.
        kafka: what the broker knows of them.
        logged: up to where Spark has committed; empty: there is nothing to go on from.
        unimportant: topics of which nothing can be lost.
    """
    then = numbers.reading(read, kafka.ids)
    if not logged:
        return Resumption(numbers, Correction(), then)
    in_log = {topic for topic, _ in logged}
    gone = in_log - set(read)
    known = {topic for topic in in_log & set(read) if numbers.current(topic) is not None}  # else put there by a start that was interrupted
    again = {topic for topic in known if numbers.current(topic) != then.current(topic)}
    noted = numbers.left_at({place: offset for place, offset in logged.items() if place[0] in gone})
    starts: Offsets = {}
    lost = [_created_again(topic, logged) for topic in sorted(again - set(unimportant))]
    for (topic, partition), earliest in sorted(kafka.earliest.items()):
        if topic not in read:
            continue
        if topic in in_log - again:
            if topic in unimportant and logged.get((topic, partition), earliest) < earliest:
                starts[topic, partition] = earliest  # else Spark would take what has expired for lost, at every start
            continue
        left = noted.where_left(topic).get(partition, earliest) if noted.current(topic) == then.current(topic) else earliest
        starts[topic, partition] = max(left, earliest)
        if left < earliest and topic not in unimportant:
            lost.append(Finding(f'topic "{topic}": the records {left} to {earliest - 1} of partition {partition} are gone', hint=_GO_ON))
    return Resumption(noted, Correction(frozenset(gone | again), starts), noted.reading(read, kafka.ids), tuple(lost))


_GO_ON = "set kafka.fail_on_data_loss: false for one start to go on without them"


def _created_again(topic: str, logged: Offsets) -> Finding:
    ends = ", ".join(f"{partition}: {offset}" for (name, partition), offset in sorted(logged.items()) if name == topic)
    return Finding(
        f'topic "{topic}" was deleted and created again; what it held behind the offsets that were read ({ends}) is gone',
        hint="set kafka.fail_on_data_loss: false for one start to go on with the new topic from its beginning",
    )
