"""Numbers that last: what the checkpoint calls topics by, and in how many buckets its state is. Append-only.

State, directives and identities speak of topics by number. A topic gets the next number when it is read for the first time, and keeps it for as long as
the checkpoint lives, whether it is read or not; one that was deleted and created again is another topic, and gets a number of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from pyarrow import fs

from app.errors import ConfigurationError, Finding, SnapshotError
from app.events.topics import topic_label, topic_numbers
from app.pipeline.checkpoint_files import checkpoint_files

FORMAT = 1
FILE = "numbers.json"


@dataclass(frozen=True, slots=True)
class NumberedTopic:
    """What a number stands for.

    Attributes:
        topic: its name.
        topic_id: Kafka's; None where nobody knows (recorded topics, brokers before 2.8).
        incarnation: how often a topic of this name was created, as far as this checkpoint has seen.
    """

    topic: str
    topic_id: str | None = None
    incarnation: int = 1


@dataclass(frozen=True, slots=True)
class Numbers:
    """The registry of a checkpoint.

    Attributes:
        topics: by number.
        buckets: in which the state is; None before there is any.
    """

    topics: tuple[NumberedTopic, ...] = ()
    buckets: int | None = None

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

    def to_json(self) -> str:
        """As text.

        >>> Numbers.from_json(Numbers((NumberedTopic("a"),), 2).to_json()) == Numbers((NumberedTopic("a"),), 2)
        True
        """
        return json.dumps({"format": FORMAT, "buckets": self.buckets, "topics": [asdict(one) for one in self.topics]}, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> Numbers:
        """What `to_json` gave.

        Raises:
            SnapshotError: it is none of a known format.
        """
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise SnapshotError(f"the checkpoint's {FILE} has format {data['format']}, this version reads {FORMAT}")
            return Numbers(tuple(NumberedTopic(**one) for one in data["topics"]), data["buckets"])
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotError(f"the checkpoint's {FILE} is damaged; take it from a copy of the checkpoint") from error


def load_numbers(checkpoint: str) -> Numbers:
    """The registry of a checkpoint; an empty one in a fresh checkpoint.

    Raises:
        SnapshotError: it is damaged, of a newer version, or missing although there is state.
    """
    files, base = checkpoint_files(checkpoint)
    try:
        with files.open_input_stream(f"{base}/{FILE}") as stream:
            return Numbers.from_json(stream.readall().decode(errors="replace"))
    except FileNotFoundError:
        if files.get_file_info(f"{base}/deployments").type != fs.FileType.NotFound:
            hint = f"take {FILE} from a copy of the checkpoint, or begin a new one"
            raise SnapshotError(
                f"the checkpoint {checkpoint} has no {FILE}, without which nobody knows its topics by number; {hint}"
            ) from None
        return Numbers()


def store_numbers(checkpoint: str, numbers: Numbers) -> None:
    """Writes the registry; to be called before anything that goes by its numbers is stored."""
    files, base = checkpoint_files(checkpoint)
    files.create_dir(base, recursive=True)
    with files.open_output_stream(f"{base}/{FILE}.draft") as stream:
        stream.write(numbers.to_json().encode())
    files.move(f"{base}/{FILE}.draft", f"{base}/{FILE}")
