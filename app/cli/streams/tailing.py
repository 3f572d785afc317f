"""What ``cep tail`` does: composite events, read from their topics and shown."""

from __future__ import annotations

import heapq
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from confluent_kafka import Message
from rich.text import Text

from app.cli.inputs.moments import moment_ms, moment_text
from app.cli.later import Later
from app.cli.output import Output, write_json
from app.cli.screen import screen
from app.cli.streams.decoded import Decoder, UnreadableError
from app.cli.streams.topics import catalog_of
from app.config.settings import Settings, load_settings
from app.delivery.composite_schema import subject
from app.delivery.reading import Reading
from app.delivery.record_headers import readable_headers
from app.delivery.topics import output_topic
from app.errors import ConfigurationError, Finding
from app.events.registry import Registry, registry_settings
from app.query.plan import Plan
from app.similar import did_you_mean

KINDS = {"timeout": "timeout", "reconciled": "reconciled", "retracted": "retracted"}
"""Ends of ``ce_type``: what the record is, where it is no plain composite event."""
Accepts = Callable[[str, int, Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Shown:
    """A composite event as it is shown.

    Attributes:
        written_ms: by the broker's clock.
        value: as JSON values; times in ms.
    """

    written_ms: int
    place: tuple[str, int, int]
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What `cep tail` was called with; see its options."""

    queries: Sequence[str]
    key: str | None
    where: str | None
    since: str | None
    count: int | None
    follow: bool
    timeouts: bool
    events: bool
    settings: Path | None
    output: Output


def show_composite_events(asked: Asked) -> None:
    """Shows them until there are no more, or until Ctrl-C."""
    loaded = load_settings(asked.settings, os.environ)
    plans = _plans(loaded, asked.queries)
    accepts: Accepts | None = None if asked.where is None else _condition(loaded, plans, asked.where)
    since_ms = moment_ms(asked.since or ("0 s" if asked.follow else "1 h"), "--since")
    topics = [*dict.fromkeys(output_topic(loaded, plan) for plan in plans), *([loaded.topics.timeouts] if asked.timeouts else [])]
    source = _Source(loaded, topics, since_ms, frozenset(plan.name for plan in plans))
    wanted = (one for one in source.composites(follow=asked.follow) if _fits(one, asked.key, accepts))
    shown_at = _Screen(asked.output, events=asked.events)
    try:
        if asked.follow:
            _follow(wanted, asked.count, shown_at)
        else:
            newest = heapq.nlargest(asked.count or 20, wanted, key=lambda one: (one.written_ms, one.place))
            for one in reversed(newest):
                shown_at.show(one)
    except KeyboardInterrupt:
        pass  # how --follow ends
    finally:
        source.close()
    source.tell_unread()


def _follow(wanted: Iterator[Shown], count: int | None, shown_at: _Screen) -> None:
    for number, one in enumerate(wanted, 1):
        shown_at.show(one)
        if number == count:
            return


def _plans(settings: Settings, names: Sequence[str]) -> tuple[Plan, ...]:
    plans = catalog_of(settings).plans
    known = {plan.name: plan for plan in plans}
    if unknown := [name for name in names if name not in known]:
        hint = did_you_mean(unknown[0], list(known)) or f"there are: {', '.join(known) or 'none'}"
        raise ConfigurationError([Finding(f'the settings\' query files have no enabled query "{unknown[0]}"', hint=hint)])
    return tuple(known[name] for name in names) if names else tuple(plans)


def _condition(settings: Settings, plans: Sequence[Plan], where: str) -> Accepts:
    """The condition over the fields that the registry knows."""
    registry = Registry(registry_settings(settings.schema_registry))
    found = [(plan.name, registry.latest(subject(output_topic(settings, plan), plan))) for plan in plans]
    fields_of = Later("streams.where", "fields_of").get()
    types = [fields_of(name, json.loads(registered.text)) for name, registered in found if registered is not None]
    if not types:
        names = ", ".join(plan.name for plan in plans)
        hint = "the application registers them when it starts; without --where everything is shown"
        raise ConfigurationError([Finding(f"--where: the registry has no schema of the composite events of {names}", hint=hint)])
    accepts: Accepts = Later("streams.where", "condition_of")(where, types)
    return accepts


def _fits(one: Shown, key: str | None, accepts: Accepts | None) -> bool:
    value = one.value
    if key is not None and key not in (value["partition_key"], value["key"]):
        return False
    return accepts is None or accepts(value["query"], value["time"], value["fields"])


class _Source:
    """Composite events from their topics."""

    def __init__(self, settings: Settings, topics: Sequence[str], since_ms: int, queries: frozenset[str]) -> None:
        self._decoder = Decoder(settings.schema_registry)
        self._reading = Reading(settings.kafka, topics, since_ms)
        self._queries = queries
        self._unread: dict[str, int] = {}

    def close(self) -> None:
        self._reading.close()

    def composites(self, *, follow: bool) -> Iterator[Shown]:
        """Those that can be read, of the wanted queries; in follow mode for ever."""
        for messages in self._reading.coming() if follow else self._reading.there():
            for message in messages:
                try:
                    found = shown(message, self._decoder.read(message.value()))
                except UnreadableError as error:
                    self._unread[str(error)] = self._unread.get(str(error), 0) + 1
                    continue
                if found.value["query"] in self._queries:
                    yield found

    def tell_unread(self) -> None:
        """Records that are there and could not be read: exit code 1."""
        for reason, count in self._unread.items():
            print(f"{count:,} records could not be shown: {reason}", file=sys.stderr)
        if self._unread:
            raise typer.Exit(1)


def shown(message: Message, record: Any) -> Shown:
    """A record of a topic of composite events.

    Raises:
        UnreadableError: it is something else.
    """
    headers = {name: (content or b"").decode(errors="replace") for name, content in readable_headers(message)}
    place = (str(message.topic()), int(message.partition()), int(message.offset()))
    try:
        value = {
            "id": record["id"],
            "query": record["query"],
            "version": record["version"],
            "kind": KINDS.get(headers.get("ce_type", "").rpartition(".")[2], "timeout" if "missing" in record else "match"),
            "time": _plain(record["time"]),
            "detected_at": _plain(record["detected_at"]),
            "written_at": message.timestamp()[1],
            "window": record["window"],
            "partition_key": record["partition_key"],
            "key": None if message.key() is None else message.key().decode(errors="backslashreplace"),
            "fields": _plain(record["fields"]),
            "events": _plain(record["events"]),
            **({"missing": record["missing"]} if "missing" in record else {}),
            "topic": place[0],
            "partition": place[1],
            "offset": place[2],
        }
    except (KeyError, TypeError) as error:
        raise UnreadableError(f"it is no composite event: {error!r} is not there\nhint: does somebody else write to {place[0]}?") from error
    return Shown(message.timestamp()[1], place, value)


def _plain(value: Any) -> Any:
    """Avro's values as JSON's: times in ms, bytes as text."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


class _Screen:
    """Where they are shown."""

    def __init__(self, output: Output, *, events: bool) -> None:
        self._json, self._events = output is Output.json, events
        self._console = screen()

    def show(self, one: Shown) -> None:
        if self._json:
            write_json(one.value)
            return
        value = one.value
        kind = "" if value["kind"] == "match" else f" {value['kind']}"
        head = Text.assemble(moment_text(value["time"]), "  ", (f"{value['query']} v{value['version']}", "bold"), (kind, "yellow"))
        if value["partition_key"] is not None:
            head.append(f"  [{value['partition_key']}]", "cyan")
        for name, content in value["fields"].items():
            head.append(f"  {name}=").append(json.dumps(content, ensure_ascii=False, default=str))
        head.append(f"  (+{(one.written_ms - value['time']) / 1000:.1f} s)", "dim")
        self._console.print(head)
        for event in value["events"] if self._events else ():
            name = "" if event["variable"] is None else f" {event['variable']}"
            place = f"{event['topic']}/{event['partition']}@{event['offset']}"
            self._console.print(Text(f"    {moment_text(event['time'])}  {event['type']}{name}  {place}", "dim"))
