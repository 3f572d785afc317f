"""The same security settings for both Kafka clients: the JVM's (Spark) and librdkafka's (ours). See ops.md, section 11."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from app.config.settings import Kafka
from app.errors import ConfigurationError, Finding

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_CALLBACK = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
DIRECTORY_PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"


def _from_file(path: Path) -> str:
    """A reference that the JVM's client resolves itself, on driver and executors: the secret is in no plan, UI or log."""
    return f"${{dir:{path.parent}:{path.name}}}"


def _jaas(kafka: Kafka) -> str:
    security = kafka.security
    if security.mechanism == "OAUTHBEARER":
        secret = (
            _from_file(security.oauth.client_secret_file) if security.oauth.client_secret_file else _plain(security.oauth.client_secret)
        )
        scope = f' scope="{security.oauth.scope}"' if security.oauth.scope else ""
        return f'{OAUTH} required clientId="{security.oauth.client_id}" clientSecret="{secret}"{scope};'
    password = _from_file(security.password_file) if security.password_file else _plain(security.password)
    module = PLAIN if security.mechanism == "PLAIN" else SCRAM
    return f'{module} required username="{security.username}" password="{password}";'


def _plain(secret: object) -> str:
    return secret.get_secret_value() if hasattr(secret, "get_secret_value") else ""


def jvm_options(kafka: Kafka) -> dict[str, str]:
    """Options of Spark's Kafka source and sink, with the prefix ``kafka.``."""
    security = kafka.security
    options = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": security.protocol}
    if security.mechanism:
        options |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": _jaas(kafka)}
    if security.mechanism == "OAUTHBEARER":
        options |= {
            "sasl.login.callback.handler.class": OAUTH_CALLBACK,
            "sasl.oauthbearer.token.endpoint.url": security.oauth.token_endpoint_url,
        }
    if security.ca_file:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _from_file(security.ca_file)}
    if security.certificate_file and security.key_file:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": _from_file(security.key_file),
            "ssl.keystore.certificate.chain": _from_file(security.certificate_file),
        }
    if not security.verify_hostname:
        options["ssl.endpoint.identification.algorithm"] = ""
    folders = {
        str(path.parent)
        for path in (
            security.password_file,
            security.ca_file,
            security.certificate_file,
            security.key_file,
            security.oauth.client_secret_file,
        )
        if path
    }
    if folders:
        options |= {
            "config.providers": "dir",
            "config.providers.dir.class": DIRECTORY_PROVIDER,
            "config.providers.dir.param.allowed.paths": ",".join(sorted(folders)),
        }
    return {f"kafka.{name.removeprefix('kafka.')}": value for name, value in {**options, **kafka.client_options}.items()}


def client_options(kafka: Kafka) -> dict[str, str]:
    """Options of confluent-kafka's clients (librdkafka): of the settings' own those that it knows, since some are only Java's.

    Raises:
        ConfigurationError: one has a value that librdkafka does not take.
    """
    security = kafka.security
    options = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": security.protocol.lower()}
    if security.mechanism == "OAUTHBEARER":
        options |= {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": security.oauth.client_id,
            "sasl.oauthbearer.client.secret": _plain(security.oauth.client_secret),
            "sasl.oauthbearer.token.endpoint.url": security.oauth.token_endpoint_url,
        }
        if security.oauth.scope:
            options["sasl.oauthbearer.scope"] = security.oauth.scope
    elif security.mechanism:
        options |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username or "",
            "sasl.password": _plain(security.password),
        }
    if security.ca_file:
        options["ssl.ca.location"] = str(security.ca_file)
    if security.certificate_file and security.key_file:
        options |= {"ssl.certificate.location": str(security.certificate_file), "ssl.key.location": str(security.key_file)}
    if not security.verify_hostname:
        options["ssl.endpoint.identification.algorithm"] = "none"
    given = {name.removeprefix("kafka."): value for name, value in kafka.client_options.items()}
    return options | {name: value for name, value in given.items() if _is_known(name, value)}


@lru_cache(maxsize=256)
def _is_known(name: str, value: str) -> bool:
    """Asks librdkafka itself: a client without brokers connects to nobody, and is there for a millisecond."""
    try:
        Producer({name: value, "log_level": 0})
    except KafkaException as error:
        told = error.args[0].str()
        if told.startswith("No such configuration property"):
            return False
        raise ConfigurationError([Finding(f"kafka.client_options: {name}: {value}: {told[:1].lower()}{told[1:]}")]) from error
    return True


def consumer_options(kafka: Kafka) -> dict[str, str]:
    """`client_options` of a consumer that sees the same records as Spark's source."""
    return {**client_options(kafka), "isolation.level": kafka.isolation_level}
