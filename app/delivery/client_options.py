"""`kafka.client_options`: which of them reach Java's client (Spark's source) and which librdkafka (our own clients), and by what name.

People know Java's names. Java's client gets every option as it is written and ignores those that it does not know. librdkafka refuses what it does
not know, so it is asked; where it calls the same thing otherwise, its name is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from confluent_kafka import KafkaException, Producer

from app.config.settings import ONLY_JAVA, ONLY_LIBRDKAFKA
from app.errors import ConfigurationError, Finding


def _same(value: str) -> str:
    return value


def _kilobytes(value: str) -> str:
    """Bytes as kilobytes; what is no number is left for librdkafka to refuse.

    >>> _kilobytes("33554432"), _kilobytes("much")
    ('32768', 'much')
    """
    return str(max(1, int(value) // 1024)) if value.isdigit() else value


def _none(value: str) -> str:
    return value or "none"


RENAMED: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "max.request.size": ("message.max.bytes", _same),
    "buffer.memory": ("queue.buffering.max.kbytes", _kilobytes),
    "send.buffer.bytes": ("socket.send.buffer.bytes", _same),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", _same),
    "fetch.max.wait.ms": ("fetch.wait.max.ms", _same),
    "socket.connection.setup.timeout.max.ms": ("socket.connection.setup.timeout.ms", _same),
    "ssl.endpoint.identification.algorithm": ("ssl.endpoint.identification.algorithm", _none),
}
"""Java's name → librdkafka's, and its value."""
OTHERWISE_MEANT = frozenset({"ssl.cipher.suites", "ssl.provider", "ssl.engine.factory.class"})
"""Both know the name, but their values have nothing in common: Java's are not OpenSSL's."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What reached which client, by the names in the settings.

    Attributes:
        both: under the same name.
        renamed: both; librdkafka calls them otherwise.
        java: Spark's source only.
        librdkafka: our own clients only.
    """

    both: tuple[str, ...]
    renamed: Mapping[str, str]
    java: tuple[str, ...]
    librdkafka: tuple[str, ...]


def for_java(options: Mapping[str, str]) -> dict[str, str]:
    """Options for Java's client."""
    return {
        name.removeprefix("kafka.").removeprefix(ONLY_JAVA): value
        for name, value in options.items()
        if not name.startswith(ONLY_LIBRDKAFKA)
    }


def for_librdkafka(options: Mapping[str, str]) -> dict[str, str]:
    """Options for librdkafka.

    Raises:
        ConfigurationError: one has a value that librdkafka does not take, or is meant for it alone and not known to it.
    """
    found: dict[str, str] = {}
    for given, value in options.items():
        name, translated = _translated(given, value)
        if name and _is_known(given, name, translated):
            found[name] = translated
        elif given.startswith(ONLY_LIBRDKAFKA):
            raise ConfigurationError([Finding(f"kafka.client_options: {given}: librdkafka has no such option")])
    return found


def reach_of(options: Mapping[str, str]) -> Reach:
    """Which option reaches which client."""
    ours = {
        given: name for given, value in options.items() if (name := _translated(given, value)[0]) and name in for_librdkafka({given: value})
    }
    shared = {given: name for given, name in ours.items() if not given.startswith(ONLY_LIBRDKAFKA)}
    return Reach(
        both=tuple(sorted(given for given, name in shared.items() if name == given.removeprefix("kafka."))),
        renamed={given: name for given, name in sorted(shared.items()) if name != given.removeprefix("kafka.")},
        java=tuple(sorted(options.keys() - ours.keys())),
        librdkafka=tuple(sorted(ours.keys() - shared.keys())),
    )


def _translated(given: str, value: str) -> tuple[str, str]:
    """Name and value for librdkafka; no name where it is not meant."""
    if given.startswith(ONLY_LIBRDKAFKA):
        return given.removeprefix(ONLY_LIBRDKAFKA), value
    name = given.removeprefix("kafka.")
    if name.startswith(ONLY_JAVA) or name in OTHERWISE_MEANT:
        return "", value
    other, translate = RENAMED.get(name, (name, _same))
    return other, translate(value)


@lru_cache(maxsize=256)
def _is_known(given: str, name: str, value: str) -> bool:
    """Asks librdkafka itself: a client without brokers connects to nobody, and is there for a millisecond."""
    try:
        Producer({name: value, "log_level": 0})
    except KafkaException as error:
        told = error.args[0].str()
        if told.startswith("No such configuration property"):
            return False
        raise ConfigurationError([Finding(f"kafka.client_options: {given}: {value}: {told[:1].lower()}{told[1:]}")]) from error
    return True
