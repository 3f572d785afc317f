"""The same security settings for both Kafka clients: the JVM's (Spark) and librdkafka's (ours). See `ops/decisions/0041-secrets.md`.

What travels (plans of Spark, orders to owners) names the files of secrets, never their content: `app.config.secret_files`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from app.config.secret_files import read_secret, reference, secret_file
from app.config.settings import Kafka
from app.delivery.client_options import for_java, for_librdkafka
from app.delivery.key_checks import unfit_key
from app.errors import Finding

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_CALLBACK = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
DIRECTORY_PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""Java's client refuses every token endpoint that this system property does not name, from version 4.0 on."""

Handed = Callable[[SecretStr | None, Path | None], str]
"""What stands for a secret in an option."""


def jvm_options(kafka: Kafka) -> dict[str, str]:
    """Options of Spark's Kafka source and sink, with the prefix ``kafka.``; Java's client reads the secrets' files itself, on driver and executors."""
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
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": reference(security.ca_file.absolute())}
    if security.certificate_file and security.key_file:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": reference(security.key_file.absolute()),
            "ssl.keystore.certificate.chain": reference(security.certificate_file.absolute()),
        }
        if security.key_password is not None:
            options["ssl.key.password"] = _referred(security.key_password, security.key_password_file)
    if not security.verify_hostname:
        options["ssl.endpoint.identification.algorithm"] = ""
    if folders := sorted({str(file.parent) for file in java_files(kafka)}):
        options |= {
            "config.providers": "dir",
            "config.providers.dir.class": DIRECTORY_PROVIDER,
            "config.providers.dir.param.allowed.paths": ",".join(folders),
        }
    return {f"kafka.{name}": value for name, value in {**options, **for_java(kafka.client_options)}.items()}


def java_files(kafka: Kafka) -> tuple[Path, ...]:
    """The files that Java's client reads."""
    security = kafka.security
    found = (
        _in_jaas(security.password, security.password_file),
        _in_jaas(security.oauth.client_secret, security.oauth.client_secret_file),
        secret_file(security.key_password, security.key_password_file),
        *(file and file.absolute() for file in (security.ca_file, security.certificate_file, security.key_file)),
    )
    return tuple(file for file in found if file is not None)


def _jaas(kafka: Kafka) -> str:
    security, oauth = kafka.security, kafka.security.oauth
    if security.mechanism == "OAUTHBEARER":
        more = {"scope": oauth.scope}
        if oauth.ca_file is not None:
            more |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(oauth.ca_file.absolute())}
        options = "".join(f' {name}="{_escaped(value)}"' for name, value in more.items() if value)
        secret = _referred_in_jaas(oauth.client_secret, oauth.client_secret_file)
        return f'{OAUTH} required clientId="{_escaped(oauth.client_id)}" clientSecret="{secret}"{options};'
    module = PLAIN if security.mechanism == "PLAIN" else SCRAM
    password = _referred_in_jaas(security.password, security.password_file)
    return f'{module} required username="{_escaped(security.username or "")}" password="{password}";'


def _escaped(text: str) -> str:
    r"""A text between the quotes of a JAAS line.

    >>> print(_escaped('a"b\\c'))
    a\"b\\c
    """
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _in_jaas(secret: SecretStr | None, file: Path | None) -> Path | None:
    """A secret's file for a JAAS line, into which the client puts its content as it is."""
    return secret_file(None if secret is None else SecretStr(_escaped(secret.get_secret_value())), file)


def _referred_in_jaas(secret: SecretStr | None, file: Path | None) -> str:
    found = _in_jaas(secret, file)
    return "" if found is None else reference(found)


def _referred(secret: SecretStr | None, file: Path | None) -> str:
    found = secret_file(secret, file)
    return "" if found is None else reference(found)


def _read(secret: SecretStr | None, file: Path | None) -> str:
    if file is not None:
        return read_secret(file)
    return "" if secret is None else secret.get_secret_value()


def shipped_options(kafka: Kafka) -> dict[str, str]:
    """Options of confluent-kafka's clients (librdkafka) with references in the place of secrets: for other processes, and for clients that are kept (`app.delivery.kept`).

    Raises:
        ConfigurationError: one of the settings' own has a value that librdkafka does not take.
    """
    return _options(kafka, _referred)


def client_options(kafka: Kafka) -> dict[str, str]:
    """The same for a client that is made here and now: with the secrets themselves.

    Raises:
        ConfigurationError: as above, or a secret's file cannot be read.
    """
    return _options(kafka, _read)


def consumer_options(kafka: Kafka) -> dict[str, str]:
    """`client_options` of a consumer that sees the same records as Spark's source."""
    return {**client_options(kafka), "isolation.level": kafka.isolation_level}


def shipped_consumer_options(kafka: Kafka) -> dict[str, str]:
    """`shipped_options` of a consumer that sees the same records as Spark's source."""
    return {**shipped_options(kafka), "isolation.level": kafka.isolation_level}


def _options(kafka: Kafka, handed: Handed) -> dict[str, str]:
    security, oauth = kafka.security, kafka.security.oauth
    options = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": security.protocol.lower()}
    if security.mechanism == "OAUTHBEARER":
        options |= {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": oauth.client_id,
            "sasl.oauthbearer.client.secret": handed(oauth.client_secret, oauth.client_secret_file),
            "sasl.oauthbearer.token.endpoint.url": oauth.token_endpoint_url,
        }
        if oauth.scope:
            options["sasl.oauthbearer.scope"] = oauth.scope
        if oauth.ca_file:
            options["https.ca.location"] = str(oauth.ca_file.absolute())
    elif security.mechanism:
        options |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username or "",
            "sasl.password": handed(security.password, security.password_file),
        }
    if security.ca_file:
        options["ssl.ca.location"] = str(security.ca_file.absolute())
    if security.certificate_file and security.key_file:
        options |= {
            "ssl.certificate.location": str(security.certificate_file.absolute()),
            "ssl.key.location": str(security.key_file.absolute()),
        }
        if security.key_password is not None:
            options["ssl.key.password"] = handed(security.key_password, security.key_password_file)
    if not security.verify_hostname:
        options["ssl.endpoint.identification.algorithm"] = "none"
    return options | for_librdkafka(kafka.client_options)


def unfit_files(kafka: Kafka) -> list[Finding]:
    """Files of secrets that Java's client would read otherwise than they are meant: it takes their content as it is, and puts it between quotes."""
    security = kafka.security
    asked = (
        ("password_file", security.password_file),
        ("oauth.client_secret_file", security.oauth.client_secret_file),
        ("key_password_file", security.key_password_file),
    )
    found = []
    for name, file in asked:
        if file is None:
            continue
        content = file.read_bytes()
        if unfit := [word for sign, word in _UNFIT.items() if sign in content]:
            hint = f'write it without a line break at its end, as printf %s "$SECRET" > {file.name} does, and choose another secret if it holds a quote or a backslash'
            found.append(
                Finding(
                    f"kafka.security.{name}: Java's client cannot read {file} as it is: there is {' and '.join(unfit)} in it", hint=hint
                )
            )
    if security.key_file is not None:
        found += unfit_key(security.key_file, has_password=security.key_password is not None)
    odd = [file for file in java_files(kafka) if set(str(file)) & set(":,}")]
    return found + [Finding(f"Java's client cannot be told of {file}: its path has a colon, a comma or a brace") for file in odd]


_UNFIT = {b"\n": "a line break", b"\r": "a carriage return", b'"': "a quote", b"\\": "a backslash"}
