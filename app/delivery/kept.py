"""Kafka clients that stay, and are made anew when the files of their secrets are exchanged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from confluent_kafka import KafkaException, Producer

from app.config.secret_files import files_in, mark_of, resolved
from app.errors import ConfigurationError, Finding
from app.observe.logs import get_logger

Client = TypeVar("Client")
PLACES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "https.ca.location")
"""Options that are paths: librdkafka reads them when a client is made, and never again."""
LAST_WORDS_S = 5.0
"""How long a producer that goes may take for what it still holds."""

log = get_logger(__name__)


def files_of(options: Mapping[str, Any]) -> tuple[Path, ...]:
    """All files that a client with these options reads."""
    return tuple(sorted({*files_in(options.values()), *(Path(options[name]) for name in PLACES if name in options)}))


class KeptClient(Generic[Client]):
    """One client at a time. For one thread.

    Args:
        options: as `app.delivery.security.shipped_options` has them, and more of the caller's.
        make: a client of options without references.
        end: takes leave of the one before.
    """

    def __init__(self, options: Mapping[str, Any], make: Callable[[dict[str, Any]], Client], end: Callable[[Client], object]) -> None:
        self._options, self._make, self._end = dict(options), make, end
        self._files = files_of(options)
        self._mark = mark_of(self._files)
        self._client: Client | None = None

    def __call__(self) -> Client:
        """The client with the present secrets. While they cannot be used (files are exchanged one after the other), the one before.

        Raises:
            ConfigurationError: there was none before.
        """
        if self._client is None:
            self._client = self._made()
        elif self._files and (mark := mark_of(self._files)) != self._mark:
            self._renew(self._client)
            self._mark = mark
        return self._client

    def close(self) -> None:
        """Ends the client, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            self._end(client)

    def _made(self) -> Client:
        try:
            return self._make(resolved(self._options))
        except KafkaException as error:
            raise ConfigurationError([Finding(f"kafka.security: {error.args[0].str()}")]) from error

    def _renew(self, before: Client) -> None:
        names = sorted(file.name for file in self._files)
        try:
            self._client = self._made()
        except ConfigurationError as error:
            log.warning("a Kafka client goes on with what it knows: its new secrets cannot be used", files=names, reason=str(error))
            return
        log.info("a Kafka client has read its secrets again", files=names)
        self._end(before)


class KeptProducer:
    """A producer of `KeptClient` for who knows nothing of secrets. For one thread, but for its last words.

    Args:
        options: of the producer, with references.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._kept: KeptClient[Producer] = KeptClient(options, Producer, lambda producer: producer.flush(LAST_WORDS_S))
        self._lock = threading.Lock()

    def produce(self, topic: str, value: bytes, *, on_delivery: Callable[[object, object], None]) -> None:
        """As of confluent-kafka."""
        with self._lock:
            self._kept().produce(topic, value, on_delivery=on_delivery)

    def poll(self, timeout: float) -> object:
        """As of confluent-kafka."""
        with self._lock:
            return self._kept().poll(timeout)

    def flush(self, timeout: float) -> object:
        """As of confluent-kafka."""
        with self._lock:
            return self._kept().flush(timeout)
