"""Topics that the application needs, the difference to those that exist, and how to make it none."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, OffsetSpec, ResourceType

from app.config.settings import Settings
from app.delivery.connection import failure
from app.delivery.security import client_options
from app.errors import DependencyError
from app.query.plan import Catalog, Plan

_REQUEST_SECONDS = 30.0
_POLL_SECONDS = 0.05
"""Brokers answer a request before every one of them knows the new metadata."""
_NO_ID = ("", "None", "AAAAAAAAAAAAAAAAAAAAAA")
"""What brokers without ids tell: none, or 16 zero bytes."""
_BROKER_TIME = (("message.timestamp.type", "LogAppendTime"),)
"""The broker's clock stamps the records: latencies are measured between such times, a producer's clock would spoil them."""
_ONE_HOUR = (("retention.ms", "3600000"),)
"""Old heartbeats mean nothing; they are only read by a driver that starts again soon."""


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic as the settings want it.

    Attributes:
        made_when_missing: by the application itself.
    """

    name: str
    purpose: str
    partitions: int
    replication_factor: int
    config: tuple[tuple[str, str], ...] = ()
    made_when_missing: bool = False


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic as the broker has it."""

    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What is to be done about one topic."""

    topic: WantedTopic
    create: bool
    alter: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    """Differences that are left alone, and why."""

    @property
    def nothing(self) -> bool:
        """Whether the topic is as it should be."""
        return not (self.create or self.alter)


def output_topic(settings: Settings, plan: Plan) -> str:
    """Where the query's composite events go."""
    return plan.output.topic or settings.topics.of_query(plan.name)


def wanted_topics(settings: Settings, catalog: Catalog) -> tuple[WantedTopic, ...]:
    """Every topic that the application reads or writes: input, composite events per query, and its own."""
    topics, copies = settings.topics, settings.topics.replication_factor
    wanted = [
        WantedTopic(topic, f"events of the stream {name}", stream.partitions, copies, _BROKER_TIME)
        for name, stream in sorted(settings.streams.items())
        for topic in stream.topics
    ]
    outputs: dict[str, list[str]] = {}
    for plan in catalog.plans:
        outputs.setdefault(output_topic(settings, plan), []).append(plan.name)
    for topic, queries in sorted(outputs.items()):
        purpose = f"composite events of {', '.join(queries)}"
        wanted.append(WantedTopic(topic, purpose, topics.partitions, copies, _BROKER_TIME, topics.create_outputs))
    own = {
        topics.late: "events after their watermark",
        topics.dead_letters: "records that cannot be decoded",
        topics.audit: "what shedding did and cost, verdicts",
        topics.timeouts: "partial matches that ran out of their window",
    }
    wanted += [WantedTopic(topic, purpose, topics.partitions, copies, _BROKER_TIME) for topic, purpose in own.items()]
    if settings.heartbeat.enabled:
        wanted.append(WantedTopic(topics.heartbeat, "time passes without input", 1, copies, _BROKER_TIME + _ONE_HOUR))
    return tuple({topic.name: topic for topic in reversed(wanted)}.values())[::-1]


def plan_changes(wanted: Iterable[WantedTopic], existing: Mapping[str, ExistingTopic]) -> tuple[TopicChange, ...]:
    """Compares; touches nothing.

    Partitions are never added: keys would move to other partitions, and events of one key would lose their order.
    """
    changes = []
    for topic in wanted:
        found = existing.get(topic.name)
        if found is None:
            changes.append(TopicChange(topic, create=True))
            continue
        alter = tuple((name, value) for name, value in topic.config if found.config.get(name) not in (None, value))
        remarks: tuple[str, ...] = ()
        if found.partitions != topic.partitions:
            remarks = (f"has {found.partitions} partitions, settings say {topic.partitions}: left alone, keys would move",)
        changes.append(TopicChange(topic, create=False, alter=alter, remarks=remarks))
    return tuple(changes)


def render_changes(changes: Iterable[TopicChange]) -> str:
    """The difference, one topic per line: ``+`` to create, ``~`` to change, ``=`` as it should be."""
    lines = []
    for change in changes:
        topic = change.topic
        mark = "+" if change.create else "~" if change.alter else "="
        shape = f"{topic.partitions} partition{'s' * (topic.partitions != 1)}, {topic.replication_factor}×" if change.create else ""
        settings = ", ".join(f"{name}={value}" for name, value in (topic.config if change.create else change.alter))
        lines.append(f"{mark} {topic.name:<32} {'  '.join(filter(None, [shape, settings, *change.remarks]))}  # {topic.purpose}")
    return "\n".join(lines)


class TopicAdministrator:
    """Reads and changes a broker's topics."""

    def __init__(self, settings: Settings) -> None:
        self._kafka, self._servers = settings.kafka, settings.kafka.bootstrap_servers
        self._admin = AdminClient({**client_options(settings.kafka), "log_level": 0})

    def existing(self, names: Iterable[str]) -> dict[str, ExistingTopic]:
        """Those of the topics that are there.

        Raises:
            DependencyError: the broker does not answer.
        """
        try:
            metadata = self._admin.list_topics(timeout=_REQUEST_SECONDS).topics
            there = [name for name in dict.fromkeys(names) if name in metadata and metadata[name].error is None]
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in there]
            answers = self._admin.describe_configs(resources, request_timeout=_REQUEST_SECONDS) if resources else {}
            configs = {
                resource.name: {entry.name: str(entry.value) for entry in future.result().values()} for resource, future in answers.items()
            }
        except KafkaException as error:
            raise self._unreachable(error) from error
        return {name: ExistingTopic(len(metadata[name].partitions), configs[name]) for name in there}

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        """Kafka's ids of those of the topics that are there; a topic that is deleted and created again gets another one.

        Raises:
            DependencyError: the broker does not answer.
        """
        found, asked = {}, list(names)
        answers = self._admin.describe_topics(TopicCollection(asked), request_timeout=_REQUEST_SECONDS) if asked else {}
        for name, future in answers.items():
            try:
                found[name] = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._unreachable(error) from error
        return {name: topic_id for name, topic_id in found.items() if topic_id not in _NO_ID}

    def earliest(self, names: Iterable[str]) -> dict[tuple[str, int], int]:
        """By topic partition the first offset that is still there.

        Raises:
            DependencyError: the broker does not answer.
        """
        try:
            known = self._admin.list_topics(timeout=_REQUEST_SECONDS).topics
            places = [TopicPartition(name, number) for name in names if name in known for number in known[name].partitions]
            wanted = {place: OffsetSpec.earliest() for place in places}
            asked = self._admin.list_offsets(wanted, request_timeout=_REQUEST_SECONDS) if wanted else {}
            return {(place.topic, place.partition): future.result().offset for place, future in asked.items()}
        except KafkaException as error:
            raise self._unreachable(error) from error

    def records(self, names: Iterable[str]) -> dict[str, int]:
        """By topic how many records are there: offsets between the first and the end, so markers of transactions count as well.

        Raises:
            DependencyError: the broker does not answer.
        """
        begin, found = self.earliest(list(names)), dict.fromkeys(names, 0)
        try:
            ends = {TopicPartition(*place): OffsetSpec.latest() for place in begin}
            asked = self._admin.list_offsets(ends, request_timeout=_REQUEST_SECONDS) if ends else {}
            for place, future in asked.items():
                found[place.topic] += future.result().offset - begin[place.topic, place.partition]
        except KafkaException as error:
            raise self._unreachable(error) from error
        return found

    def apply(self, changes: Iterable[TopicChange]) -> None:
        """Makes the changes and waits until the broker shows them; a topic that somebody else created meanwhile is fine.

        Raises:
            DependencyError: the broker does not answer, or refuses.
        """
        changes = tuple(changes)
        new = [
            NewTopic(c.topic.name, c.topic.partitions, c.topic.replication_factor, config=dict(c.topic.config)) for c in changes if c.create
        ]
        altered = [
            ConfigResource(
                ResourceType.TOPIC,
                c.topic.name,
                incremental_configs=[ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in c.alter],
            )
            for c in changes
            if c.alter
        ]
        futures = [*(self._admin.create_topics(new, request_timeout=_REQUEST_SECONDS).items() if new else ())]
        futures += self._admin.incremental_alter_configs(altered, request_timeout=_REQUEST_SECONDS).items() if altered else ()
        for subject, future in futures:
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    name = getattr(subject, "name", subject)
                    raise failure(self._kafka, error.args[0], f"create or change the topic {name}") from error

        self._wait_until_visible([change.topic for change in changes if not change.nothing])

    def _wait_until_visible(self, topics: list[WantedTopic]) -> None:
        deadline = time.monotonic() + _REQUEST_SECONDS
        while not (
            all(change.nothing for change in plan_changes(topics, self.existing(topic.name for topic in topics)))
            and self._have_leaders(topics)
        ):
            if time.monotonic() > deadline:
                raise DependencyError(f"the brokers {self._servers} accepted the changes, but do not show them")
            time.sleep(_POLL_SECONDS)

    def _have_leaders(self, topics: list[WantedTopic]) -> bool:
        """Whether every partition answers; for a moment after their creation partitions are known but led by nobody."""
        try:
            metadata = self._admin.list_topics(timeout=_REQUEST_SECONDS).topics
            if any(topic.name not in metadata for topic in topics):
                return False  # another broker answers now, and has not heard of it
            partitions = [TopicPartition(topic.name, number) for topic in topics for number in metadata[topic.name].partitions]
            if not partitions:
                return True
            for future in self._admin.list_offsets(
                {each: OffsetSpec.latest() for each in partitions}, request_timeout=_REQUEST_SECONDS
            ).values():
                future.result()
        except KafkaException:
            return False
        return True

    def _unreachable(self, error: KafkaException) -> DependencyError:
        return failure(self._kafka, error.args[0], "describe topics and their settings")
