"""Checks of the brokers: are they there, do they let us in, is every topic there, as it should be, led, and ours to use; what time is it there?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AclOperation

from app.config.settings import Settings
from app.control.arrivals.heartbeat import BEAT
from app.delivery.connection import NOT_ALLOWED, Connected, failure
from app.delivery.security import client_options
from app.delivery.topics import TopicAdministrator, WantedTopic, plan_changes
from app.pipeline.checkup.checks import Check, failed, ok, warning

REQUEST_S = 15.0
SKEW_WARNING_MS, SKEW_FAILED_MS = 250, 2_000
"""Latencies are told by the brokers' clock and the driver's together: so much they are wrong by."""
UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
READ, WRITE, DESCRIBE, CONFIGS = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS


@dataclass(frozen=True, slots=True)
class Described:
    """What the brokers tell of the wanted topics.

    Attributes:
        found: by name.
        hidden: names of those that we may not see; they may be there or not.
    """

    found: Mapping[str, Any]
    hidden: tuple[str, ...]


def brokers(connected: Connected) -> list[Check]:
    """Who they are."""
    known = connected.metadata
    count = len(known.brokers)
    return [ok("brokers", f"{count} broker{'s' * (count != 1)} of the cluster {known.cluster_id} answered in {connected.took_ms:.0f} ms")]


def described(connected: Connected, wanted: Sequence[WantedTopic], settings: Settings) -> Described:
    """Asks for all wanted topics.

    Raises:
        DependencyError: no answer.
    """
    found: dict[str, Any] = {}
    hidden: list[str] = []
    names = TopicCollection([topic.name for topic in wanted])
    asked = connected.admin.describe_topics(names, include_authorized_operations=True, request_timeout=REQUEST_S)
    for name, future in asked.items():
        try:
            found[name] = future.result()
        except KafkaException as error:
            code = error.args[0].code()
            if code in NOT_ALLOWED:
                hidden.append(name)
            elif code not in UNKNOWN:
                raise failure(settings.kafka, error.args[0], f"describe the topic {name}") from error
    return Described(found, tuple(sorted(hidden)))


def topics(settings: Settings, wanted: Sequence[WantedTopic], known: Described) -> list[Check]:
    """Are they there, and as the settings want them?

    Raises:
        DependencyError: no answer, or we may not ask.
    """
    visible = [topic for topic in wanted if topic.name not in known.hidden]
    missing = [topic.name for topic in visible if topic.name not in known.found and not topic.made_when_missing]
    checks = []
    if missing:
        hint = "cep topics plan shows them, cep topics apply creates them; a start ends without them"
        checks.append(failed("topics", f"{len(missing)} of {len(wanted)} are missing: {', '.join(missing)}", hint, os.EX_CONFIG))
    askable = [topic for topic in visible if topic.name in known.found and CONFIGS in (known.found[topic.name].authorized_operations or ())]
    existing = TopicAdministrator(settings).existing(topic.name for topic in askable)
    for change in plan_changes([topic for topic in askable if topic.name in existing], existing):
        name = change.topic.name
        if change.alter:
            differs = ", ".join(f"{key} is {existing[name].config.get(key)}, wanted {value}" for key, value in change.alter)
            checks.append(warning("topics", f"{name}: {differs}", "cep topics apply changes it"))
        checks += [warning("topics", f"{name}: {remark}", "set partitions to what is there, or leave it") for remark in change.remarks]
        checks += _too_small(settings, name, existing[name].config)
    later = [topic.name for topic in visible if topic.name not in known.found and topic.made_when_missing]
    told = f"; {', '.join(later)} will be made by the application" if later else ""
    return checks or [ok("topics", f"all {len(wanted) - len(later)} are there and as the settings want them{told}")]


def _too_small(settings: Settings, name: str, config: Mapping[str, str]) -> list[Check]:
    """A record that the topic does not take would end the query."""
    largest, ours = int(config.get("max.message.bytes", "0")), settings.topics.max_record_bytes
    if not 0 < largest < ours or settings.stream_of(name) is not None:
        return []
    hint = f"raise max.message.bytes of the topic, or set topics.max_record_bytes below {largest}"
    return [failed("topics", f"{name} takes records of {largest:,} bytes, topics.max_record_bytes is {ours:,}", hint, os.EX_CONFIG)]


def partitions(known: Described) -> list[Check]:
    """Is every topic partition led, and are its copies up to date?"""
    checks, count = [], 0
    for name, topic in sorted(known.found.items()):
        count += len(topic.partitions)
        headless = [one.id for one in topic.partitions if one.leader is None or one.leader.id < 0]
        behind = [one.id for one in topic.partitions if len(one.isr) < len(one.replicas)]
        if headless:
            hint = "bring the brokers back that hold them; until then batches wait"
            checks.append(failed("partitions", f"{name}: nobody leads the partitions {_listed(headless)}", hint, os.EX_UNAVAILABLE))
        elif behind:
            checks.append(
                warning(
                    "partitions", f"{name}: copies of the partitions {_listed(behind)} are behind", "are all brokers up, and fast enough?"
                )
            )
    return checks or [ok("partitions", f"all {count} are led, their copies up to date")]


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def needed(settings: Settings, wanted: Iterable[WantedTopic]) -> dict[str, set[AclOperation]]:
    """By topic, what the application does with it."""
    own = {settings.topics.heartbeat: {READ, WRITE, DESCRIBE, CONFIGS}}
    read, written = {READ, DESCRIBE, CONFIGS}, {WRITE, DESCRIBE, CONFIGS}
    return {topic.name: own.get(topic.name, read if settings.stream_of(topic.name) else written) for topic in wanted}


def permissions(settings: Settings, wanted: Sequence[WantedTopic], known: Described, connected: Connected) -> list[Check]:
    """May we do what the application does?"""
    checks = []
    for name, operations in sorted(needed(settings, wanted).items()):
        if name in known.hidden:
            lacking = operations
        elif name in known.found:
            lacking = operations - set(known.found[name].authorized_operations or operations)
        else:
            continue
        if lacking:
            words = ", ".join(sorted(one.name for one in lacking))
            hint = f"grant {words} on the topic {name} to {_user(settings)}"
            checks.append(
                failed("permissions", f"the topic {name}: {words} {'are' if len(lacking) > 1 else 'is'} missing", hint, os.EX_NOPERM)
            )
    group = settings.shadow_group
    if group is not None and not _may_commit(connected, group):
        hint = f"grant READ on the group {group} to {_user(settings)}, or set kafka.shadow_group.enabled: false; only lag tools miss it"
        checks.append(warning("permissions", f"the consumer group {group}: READ is missing", hint))
    return checks or [ok("permissions", f"{_user(settings)} may do all that the application does with {len(wanted)} topics")]


def _user(settings: Settings) -> str:
    security = settings.kafka.security
    return f'the user "{security.username}"' if security.username else "who connects like this"


def _may_commit(connected: Connected, group: str) -> bool:
    """Whether offsets may be committed to a group; a broker that does not say counts as yes."""
    asked = connected.admin.describe_consumer_groups([group], include_authorized_operations=True, request_timeout=REQUEST_S)
    try:
        allowed = asked[group].result().authorized_operations
    except KafkaException as error:
        return bool(error.args[0].code() not in NOT_ALLOWED)
    return allowed is None or READ in allowed


@dataclass(frozen=True, slots=True)
class Written:
    """A heartbeat that the broker has: its time there, and ours around it, ms."""

    broker_ms: int
    before_ms: int
    after_ms: int

    @property
    def skew_ms(self) -> int:
        """How far our clock is ahead of the broker's, at least: what the way may have taken is not counted."""
        if self.broker_ms < self.before_ms:
            return self.before_ms - self.broker_ms
        return min(0, self.after_ms - self.broker_ms)


def clock(settings: Settings, clock_ms: Callable[[], int]) -> list[Check]:
    """Writes one heartbeat, an empty record that the application takes for one of its own, and holds its time against ours.

    Raises:
        DependencyError: it cannot be written.
    """
    written = _beaten(settings, clock_ms)
    skew = written.skew_ms
    way = written.after_ms - written.before_ms
    if abs(skew) < SKEW_WARNING_MS:
        return [ok("clock", f"this machine's and the brokers' agree; a record is written in {way} ms")]
    where = "ahead of" if skew > 0 else "behind"
    found = f"this machine's clock is at least {abs(skew) / 1000:.1f} s {where} the brokers'"
    hint = "let both follow the same time server (chrony, systemd-timesyncd); latencies are wrong by it, and so is what is shed"
    if abs(skew) < SKEW_FAILED_MS:
        return [warning("clock", found, hint)]
    return [failed("clock", found, hint, os.EX_UNAVAILABLE)]


def _beaten(settings: Settings, clock_ms: Callable[[], int]) -> Written:
    """Two of them: the first one also pays for the connection."""
    topic = settings.topics.heartbeat
    producer = Producer({**client_options(settings.kafka), "linger.ms": 0, "message.timeout.ms": int(REQUEST_S * 1000), "log_level": 0})
    reports: list[tuple[KafkaError | None, Message, int]] = []
    before = 0
    for _ in range(2):
        before = clock_ms()
        producer.produce(topic, BEAT, on_delivery=lambda error, message: reports.append((error, message, clock_ms())))
        deadline = time.monotonic() + REQUEST_S + 1
        count = len(reports)
        while len(reports) == count and time.monotonic() < deadline:
            producer.poll(0.05)
        if len(reports) == count or reports[-1][0] is not None:
            error = reports[-1][0] if len(reports) > count else None
            raise failure(settings.kafka, error or KafkaError(KafkaError._TIMED_OUT), f"write to the topic {topic}")  # noqa: SLF001 - so named
    _, message, after = reports[-1]
    return Written(message.timestamp()[1], before, after)
