"""A client that can say why it does not get through: away, refused, or not allowed to."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from app.config.settings import Kafka
from app.delivery.security import client_options
from app.errors import AccessRefusedError, ConfigurationError, DependencyError, Finding

PATIENCE_S = 10.0
TRY_S = 0.5
"""Of one question: between two of them the client tells what it has heard."""
_UNKNOWN_PERSON = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})  # noqa: SLF001 - so named
NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001 - so named
_BEFORE_ENCRYPTION = frozenset({KafkaError._SSL})  # noqa: SLF001 - so named
_AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})  # noqa: SLF001 - so named


def failure(kafka: Kafka, error: KafkaError, what: str = "") -> DependencyError:
    """The error to raise for what a client said, with what to do next.

    Args:
        kafka: settings, for their words.
        error: of the client.
        what: what was being done, as ``read the topic a``; empty for getting through at all.
    """
    security, code = kafka.security, error.code()
    where = f"the brokers {kafka.bootstrap_servers}"
    if code in _UNKNOWN_PERSON:
        user = f' "{security.username}"' if security.username else ""
        hint = (
            f"kafka.security says {security.protocol} {security.mechanism or ''}: are user{user} and password those that the brokers know?"
        )
        return AccessRefusedError(f"{where} refuse the user{user}: {_words(error)}\nhint: {hint}")
    if code in NOT_ALLOWED:
        user = f"the user {security.username}" if security.username else "who connects like this"
        hint = f"grant it to {user}; cep doctor lists all permissions that are missing"
        return AccessRefusedError(f"{where} do not let us {what or 'do that'}: {_words(error)}\nhint: {hint}")
    if code in _BEFORE_ENCRYPTION:
        hint = (
            "kafka.security: is ca_file that of the authority that signed the brokers' certificates, and is the port one that speaks TLS?"
        )
        return DependencyError(f"{where} and we do not agree on encryption: {_words(error)}\nhint: {hint}")
    if code in _AWAY:
        hint = "is kafka.bootstrap_servers right, are the brokers up, and is kafka.security.protocol the one that this port speaks?"
        return DependencyError(f"no answer from {where}: {_words(error)}\nhint: {hint}")
    return DependencyError(
        f"{where} fail to {what or 'answer'}: {_words(error)}\nhint: cep doctor looks at everything that has to be there"
    )


def _words(error: KafkaError) -> str:
    text = str(error.str()).strip()
    return text[:1].lower() + text[1:]


def absent(metadata: ClusterMetadata, topics: Iterable[str]) -> list[str]:
    """Which of these topics the brokers do not know, or do not show us; sorted."""
    known = metadata.topics
    return sorted(one for one in set(topics) if one not in known or ((error := known[one].error) is not None and error.code() in NO_TOPIC))


def no_topic(topics: Iterable[str], kafka: Kafka) -> ConfigurationError:
    """The error for people who asked for topics that are not there. What runs takes their absence for that of a dependency: they may come back."""
    hint = "cep topics plan shows what is missing, cep topics apply creates it; or we may not see it: cep doctor tells"
    return ConfigurationError([Finding(f"there is no topic {', '.join(topics)} on {kafka.bootstrap_servers}", hint=hint)])


@dataclass(frozen=True, slots=True)
class Connected:
    """A client that got through, and what it was told.

    Attributes:
        took_ms: how long that took.
    """

    admin: AdminClient
    metadata: ClusterMetadata
    took_ms: float


def connect(kafka: Kafka, patience_s: float = PATIENCE_S) -> Connected:
    """Gets through to the brokers, or says why not.

    Raises:
        AccessRefusedError: they do not know us.
        DependencyError: they do not answer, or speak otherwise.
    """
    heard: list[KafkaError] = []
    admin = AdminClient({**client_options(kafka), "log_level": 0, "error_cb": heard.append})
    started = time.monotonic()
    while True:
        try:
            metadata = admin.list_topics(timeout=TRY_S)
        except KafkaException as error:
            admin.poll(0)  # what was heard comes in here
            if telling := [one for one in heard if one.code() in _UNKNOWN_PERSON | _BEFORE_ENCRYPTION]:
                raise failure(kafka, telling[-1]) from error
            if time.monotonic() - started >= patience_s:
                known = [one for one in heard if one.code() in _AWAY and one.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001 - so named
                raise failure(kafka, known[-1] if known else error.args[0]) from error
        else:
            return Connected(admin, metadata, (time.monotonic() - started) * 1000)
