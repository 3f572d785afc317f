"""Numbers that last: what the checkpoint calls topics by, and in how many buckets its state is. Append-only.

State, directives and identities speak of topics by number. A topic gets the next number when it is read for the first time, and keeps it for as long as
the checkpoint lives, whether it is read or not; one that was deleted and created again is another topic, and gets a number of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.config.settings import Settings
from app.errors import ConfigurationError, Finding, SnapshotError
from app.events.topics import topic_label, topic_numbers
from app.observe.logs import get_logger
from app.owners.deployment import FOLDER as DEPLOYMENTS
from app.owners.state_log import StateHome
from app.storage.frames import read_frame, write_frame
from app.storage.open import open_store
from app.storage.store import MissingError, Part

log = get_logger(__name__)

FORMAT = 1
FILE, KIND = "numbers.bin", "numbers"


@dataclass(frozen=True, slots=True)
class NumberedTopic:
    """What a number stands for.

    Attributes:
        topic: its name.
        topic_id: Kafka's; None where nobody knows (recorded topics, brokers before 2.8).
        incarnation: how often a topic of this name was created, as far as this checkpoint has seen.
        left: (partition, offset) up to which it had been read when it was read no longer.
    """

    topic: str
    topic_id: str | None = None
    incarnation: int = 1
    left: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Numbers:
    """The registry of a checkpoint.

    Attributes:
        topics: by number.
        buckets: in which the state is; None before there is any.
        home: where it is.
    """

    topics: tuple[NumberedTopic, ...] = ()
    buckets: int | None = None
    home: StateHome = field(default_factory=StateHome)

    @property
    def labels(self) -> tuple[str, ...]:
        """The topics by number, as `app.events.topics` has them."""
        return tuple(topic_label(one.topic, one.incarnation) for one in self.topics)

    def reading(self, topics: Iterable[str], ids: Mapping[str, str] | None = None) -> Numbers:
        """The registry with these topics in it; new ones in order of name.

        Args:
            topics: names.
            ids: Kafka's, by name; a known topic with another id is a new incarnation.

        >>> Numbers().reading(["b"]).reading(["c", "a"]).labels
        ('b', 'a', 'c')
        """
        known, ids, found = topic_numbers(self.labels), ids or {}, list(self.topics)
        for topic in sorted(set(topics)):
            topic_id = ids.get(topic)
            if topic not in known:
                found.append(NumberedTopic(topic, topic_id))
                continue
            number = known[topic]
            before = found[number]
            if before.topic_id is None:
                found[number] = replace(before, topic_id=topic_id)
            elif topic_id not in (None, before.topic_id):
                found.append(NumberedTopic(topic, topic_id, before.incarnation + 1))
        return replace(self, topics=tuple(found))

    def current(self, topic: str) -> int | None:
        """The number under which a topic is read; None for one that never was."""
        return topic_numbers(self.labels).get(topic)

    def left_at(self, offsets: Mapping[tuple[str, int], int]) -> Numbers:
        """The registry with the offsets (by topic and partition) at which topics are left.

        >>> Numbers().reading(["a"]).left_at({("a", 0): 5}).where_left("a")
        {0: 5}
        """
        found = list(self.topics)
        for topic in sorted({topic for topic, _ in offsets}):
            number = self.current(topic)
            if number is not None:
                own = sorted((partition, offset) for (name, partition), offset in offsets.items() if name == topic)
                found[number] = replace(found[number], left=tuple(own))
        return replace(self, topics=tuple(found))

    def where_left(self, topic: str) -> dict[int, int]:
        """By partition the offset at which the topic was left; empty where it was not."""
        number = self.current(topic)
        return {} if number is None else dict(self.topics[number].left)

    def moved(self, buckets: int, home: StateHome) -> Numbers:
        """The registry of a state that was moved there, to so many buckets."""
        return replace(self, buckets=buckets, home=home)

    def in_buckets(self, buckets: int) -> Numbers:
        """The registry of an application with so many buckets.

        Raises:
            ConfigurationError: the state is in another number of them.
        """
        if self.buckets not in (None, buckets):
            raise ConfigurationError(
                [
                    Finding(
                        f"spark.buckets is {buckets}, but the checkpoint's state is in {self.buckets} buckets",
                        hint=f"set it to {self.buckets}, or stop the application and run cep checkpoint rescale --buckets {buckets}",
                    )
                ]
            )
        return replace(self, buckets=buckets)

    def to_json(self) -> bytes:
        """As text.

        >>> Numbers.from_json(Numbers((NumberedTopic("a"),), 2).to_json()) == Numbers((NumberedTopic("a"),), 2)
        True
        """
        return json.dumps({"buckets": self.buckets, "topics": [asdict(one) for one in self.topics], "state": asdict(self.home)}).encode()

    @staticmethod
    def from_json(data: Part) -> Numbers:
        """What `to_json` gave.

        Raises:
            SnapshotError: it is none.
        """
        try:
            plain = json.loads(bytes(data))
            home = StateHome(**plain.get("state", {}))  # those who wrote none never moved it
            return Numbers(tuple(_topic(**one) for one in plain["topics"]), plain["buckets"], home)
        except (ValueError, LookupError, TypeError) as error:
            raise SnapshotError(f"{FILE} is whole, but says nothing that this version understands: {error!r}") from error


def _topic(*, left: Iterable[tuple[int, int]], **known: Any) -> NumberedTopic:
    return NumberedTopic(left=tuple((partition, offset) for partition, offset in left), **known)


def load_numbers(checkpoint: str) -> Numbers:
    """The registry of a checkpoint; an empty one in a fresh checkpoint.

    Raises:
        SnapshotError: it is damaged, of a newer version, or missing although there is state.
        StorageError: the checkpoint cannot be read.
    """
    store = open_store(checkpoint)
    try:
        return READERS[(frame := read_frame(store, FILE, KIND, READERS)).format](frame.parts[0])
    except MissingError:
        if store.names(DEPLOYMENTS):
            hint = f"take {FILE} from a copy of the checkpoint, or begin a new one"
            raise SnapshotError(
                f"the checkpoint {checkpoint} has no {FILE}, without which nobody knows its topics by number; {hint}"
            ) from None
        return Numbers()


def buckets_kept(settings: Settings) -> Settings:
    """The settings with the number of buckets that the checkpoint's state is in, where `spark.keep_buckets` wants that.

    Raises:
        SnapshotError, StorageError: see `load_numbers`.
    """
    if not settings.spark.keep_buckets:
        return settings
    known = load_numbers(settings.checkpoint.uri).buckets
    if known in (None, settings.spark.buckets):
        return settings
    log.info("buckets of the checkpoint", buckets=known, derived=settings.spark.buckets)
    return settings.model_copy(update={"spark": settings.spark.model_copy(update={"buckets": known})})


def store_numbers(checkpoint: str, numbers: Numbers) -> None:
    """Writes the registry; to be called before anything that goes by its numbers is stored.

    Raises:
        StorageError: the checkpoint cannot be written.
    """
    write_frame(open_store(checkpoint), FILE, KIND, FORMAT, [numbers.to_json()])


READERS: Mapping[int, Callable[[Part], Numbers]] = {1: Numbers.from_json}
"""By format; those of old formats stay."""
