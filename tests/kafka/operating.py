"""What the tests of operators' commands share: settings and topics of their own, and records as the application writes them."""

from __future__ import annotations

import copy
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from app.config.settings import Settings, load_settings
from app.delivery.composite_schema import composite_schema, subject, timeout_schema, timeout_subject
from app.delivery.originals import Original
from app.delivery.topics import output_topic
from app.events.registry import Registry, RegistrySettings
from app.local.embedded import Embedded
from app.owners.deployment import OutputTopic
from app.owners.egress import Failure, Records, add_dead_letters
from app.query.compile import read_queries
from app.query.plan import Plan
from app.query.resolved.vocabulary import UNKNOWN
from tests.kafka.application import ROOT
from tests.kafka.test_whole_way import apply_topics, settings_for
from tests.naive.composites import CompositeEvent, Constituent, add_objects

_numbers = itertools.count(1)


def own_copy(folder: Path, query: str) -> Path:
    """A shipped query without its own output topic, which other tests of the session write to as well."""
    file = folder / f"{query}.yaml"
    text = yaml.safe_load((ROOT / "queries" / f"{query}.yaml").read_text())
    file.write_text(
        yaml.safe_dump({**text, "output": {key: value for key, value in text.get("output", {}).items() if key != "topic"}}, sort_keys=False)
    )
    return file


class World:
    """An application's settings and topics on the embedded services; the application itself does not run."""

    def __init__(self, name: str, embedded: Embedded, folder: Path, *, topics: bool = True) -> None:
        self.name, self.folder = name, folder
        self.plain = settings_for(name, embedded, [])
        self.plain["queries"] = {"paths": [str(own_copy(folder, query)) for query in ("price-run", "shoplifting")]}
        self.plain["schema_registry"]["timeout"] = "2 s"
        self.plain["http"] = {"port": 0, "host": "127.0.0.1"}
        self.plain["checkpoint"] = {"path": str(folder / "checkpoint")}
        self.file = folder / "settings.yaml"
        self.file.write_text(yaml.safe_dump(self.plain))
        self.settings: Settings = load_settings(self.file, {})
        self.registry = Registry(RegistrySettings(embedded.registry.url))
        self.producer = Producer({"bootstrap.servers": embedded.broker.bootstrap_servers, "log_level": 0})
        if topics:
            apply_topics(self.plain, folder)

    def but(self, **changes: Any) -> Path:
        """A settings file that differs: ``but(kafka__bootstrap_servers="a:1")``; None leaves a setting out."""
        plain = copy.deepcopy(self.plain)
        for path, value in changes.items():
            *sections, last = path.split("__")
            section = plain
            for one in sections:
                section = section.setdefault(one, {})
            section[last] = value
            if value is None:
                del section[last]
        file = self.folder / f"settings-{next(_numbers)}.yaml"
        file.write_text(yaml.safe_dump(plain))
        return file

    def plan(self, query: str) -> Plan:
        found = read_queries(self.settings.queries.paths, UNKNOWN).query(query)
        assert found is not None
        assert found.plan is not None
        return found.plan

    def output(self, query: str, *, timeouts: bool = False) -> OutputTopic:
        """The query's topic, with its schema registered."""
        plan, topic = self.plan(query), output_topic(self.settings, self.plan(query))
        if timeouts:
            topic, schema = self.settings.topics.timeouts, json.dumps(timeout_schema(plan))
            return OutputTopic(topic, self.registry.register(timeout_subject(topic, plan), schema), schema)
        schema = json.dumps(composite_schema(plan))
        return OutputTopic(topic, self.registry.register(subject(topic, plan), schema), schema)

    def write_composites(self, query: str, *fields: dict[str, Any], time_ms: int | None = None, key: str | None = None) -> list[str]:
        """Composite events on their topic, as owners write them; returns their identities."""
        records, now, ids = Records(), time.time_ns() // 1_000_000 if time_ms is None else time_ms, []
        for values in fields:
            number = next(_numbers)
            ids.append(f"{number:032x}")
            event = Constituent("a", "Quote", f"{self.name}.stocks", 0, number, now - 5)
            composite = CompositeEvent(ids[-1], query, 1, now, None, key, key, values, (event,))
            add_objects(records, [composite], self.output(query), self.settings.application, now + 1)
        self._send(records)
        return ids

    def write_letters(self, *letters: tuple[Original, Failure]) -> None:
        """Dead letters, as owners write them."""
        records = Records()
        for original, failure in letters:
            add_dead_letters(records, self.settings.topics.dead_letters, self.settings.application, [original], [failure])
        self._send(records)

    def limit(self, topic: str, largest_bytes: int) -> None:
        """Lets the topic take no larger batches of records."""
        admin = AdminClient({"bootstrap.servers": self.settings.kafka.bootstrap_servers, "log_level": 0})
        entry = ConfigEntry("max.message.bytes", str(largest_bytes), incremental_operation=AlterConfigOpType.SET)
        for asked in admin.incremental_alter_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])]
        ).values():
            asked.result(timeout=30)

    def _send(self, records: Records) -> None:
        for k, topic in enumerate(records.topics):
            self.send(topic, records.values[k], records.keys[k], records.headers[k], partition=0)

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, headers: Sequence[Any] = (), **more: Any) -> int:
        """One record; returns its offset."""
        told: list[Any] = []
        self.producer.produce(topic, value=value, key=key, headers=list(headers), on_delivery=lambda *one: told.append(one), **more)
        self.producer.flush(30)
        (error, message) = told[0]
        assert error is None, error
        return int(message.offset())
