"""Options of the Kafka clients: what the settings say reaches Java's and librdkafka's alike, and no secret travels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from app.bootstrap.java import Java
from app.config.secret_files import files_in, read_secret
from app.config.settings import Kafka
from app.delivery import key_checks
from app.delivery.client_options import reach_of
from app.delivery.security import client_options, consumer_options, jvm_options, shipped_consumer_options, shipped_options, unfit_files
from app.errors import ConfigurationError
from tests.certificates import Authority

GIVEN = {"client.dns.lookup": "use_all_dns_ips", "kafka.client.rack": "a", "default.api.timeout.ms": "30000"}
SECRETS = {"password": "a planted password", "key": "a planted word for a key", "client": "a planted secret of a client"}


@pytest.fixture
def files(tmp_path):
    for name, secret in SECRETS.items():
        (tmp_path / name).write_text(secret)
    return tmp_path


def scram(**more: object) -> Kafka:
    return Kafka.model_validate({"security": {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "me", **more}})


def oauth(**more: object) -> Kafka:
    oauth = {"token_endpoint_url": "https://tokens:8443/token", "client_id": "me", "scope": "all", **more}
    return Kafka.model_validate({"security": {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": oauth}})


def mutual(authority: Authority, **more: object) -> Kafka:
    own = authority.issue("me", SECRETS["key"])
    files = {"ca_file": authority.file, "certificate_file": own.certificate, "key_file": own.key}
    return Kafka.model_validate({"security": {"protocol": "SSL", **files, **more}})


def test_options_reach_both_clients_by_the_names_that_they_know():
    kafka = Kafka(client_options=GIVEN)
    ours, javas = client_options(kafka), jvm_options(kafka)
    assert (ours["client.dns.lookup"], ours["client.rack"]) == ("use_all_dns_ips", "a")
    assert "default.api.timeout.ms" not in ours, "Java's alone"
    assert {f"kafka.{name.removeprefix('kafka.')}": value for name, value in GIVEN.items()}.items() <= javas.items()
    assert consumer_options(kafka).items() > ours.items()
    Producer(ours)
    Consumer({**consumer_options(kafka), "group.id": "tests"})


def test_what_librdkafka_calls_otherwise_reaches_it_under_its_own_name():
    given = {
        "max.request.size": "2000000",
        "buffer.memory": "33554432",
        "kafka.send.buffer.bytes": "65536",
        "fetch.max.wait.ms": "50",
        "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
        "ssl.endpoint.identification.algorithm": "",
    }
    kafka = Kafka(client_options=given)
    ours = client_options(kafka)
    wanted = {
        "message.max.bytes": "2000000",
        "queue.buffering.max.kbytes": "32768",
        "socket.send.buffer.bytes": "65536",
        "fetch.wait.max.ms": "50",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert ours == {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "plaintext", **wanted}
    Producer({**ours, "log_level": 0})
    assert {f"kafka.{name.removeprefix('kafka.')}": value for name, value in given.items()}.items() <= jvm_options(kafka).items()


def test_an_option_may_be_meant_for_one_client_only():
    kafka = Kafka(client_options={"java.client.rack": "a", "librdkafka.client.rack": "b", "librdkafka.socket.keepalive.enable": "true"})
    assert jvm_options(kafka)["kafka.client.rack"] == "a"
    assert not [name for name in jvm_options(kafka) if "librdkafka" in name or "keepalive" in name]
    assert (client_options(kafka)["client.rack"], client_options(kafka)["socket.keepalive.enable"]) == ("b", "true")
    with pytest.raises(ConfigurationError, match=r"librdkafka\.default\.api\.timeout\.ms: librdkafka has no such option"):
        client_options(Kafka(client_options={"librdkafka.default.api.timeout.ms": "1"}))


def test_what_reached_which_client_can_be_told():
    reach = reach_of({**GIVEN, "max.request.size": "2000000", "java.a": "1", "librdkafka.client.rack": "b", "ssl.cipher.suites": "X"})
    assert reach.both == ("client.dns.lookup", "kafka.client.rack")
    assert reach.renamed == {"max.request.size": "message.max.bytes"}
    assert reach.java == ("default.api.timeout.ms", "java.a", "ssl.cipher.suites")
    assert reach.librdkafka == ("librdkafka.client.rack",)


@pytest.mark.parametrize("name", ["sasl.jaas.config", "java.sasl.jaas.config", "librdkafka.sasl.password", "ssl.key.password"])
def test_secrets_are_no_options(name):
    with pytest.raises(ValueError, match=r"belongs under kafka\.security"):
        Kafka(client_options={name: "x"})


@pytest.mark.parametrize("name", ["java.group.id", "librdkafka.acks", "kafka.isolation.level"])
def test_what_the_application_needs_itself_is_refused_for_either_client(name):
    with pytest.raises(ValueError, match="may not be set"):
        Kafka(client_options={name: "x"})


def test_a_value_that_is_refused_is_told_as_the_settings_mistake():
    with pytest.raises(ConfigurationError, match=r"kafka.client_options: linger.ms: soon: invalid value"):
        client_options(Kafka(client_options={"linger.ms": "soon"}))


def test_without_options_nothing_is_added():
    assert set(client_options(Kafka())) == {"bootstrap.servers", "security.protocol"}


@pytest.mark.parametrize("given", ["as files", "as values"])
@pytest.mark.parametrize("way", ["scram", "oauth", "mutual"])
def test_no_secret_travels_and_each_is_found_at_the_other_end(files, given, way):
    def secret(name: str, key: str) -> dict[str, object]:
        return {f"{name}_file": files / key} if given == "as files" else {name: SECRETS[key]}

    authority = Authority(files)
    kafka, planted = {
        "scram": lambda: (scram(**secret("password", "password")), SECRETS["password"]),
        "oauth": lambda: (oauth(**secret("client_secret", "client")), SECRETS["client"]),
        "mutual": lambda: (mutual(authority, **secret("key_password", "key")), SECRETS["key"]),
    }[way]()
    for travels in (jvm_options(kafka), shipped_options(kafka), shipped_consumer_options(kafka)):
        assert planted not in json.dumps(travels)
        assert planted in [read_secret(file) for file in files_in(travels.values())]
    assert planted in client_options(kafka).values()
    folders = jvm_options(kafka)["kafka.config.providers.dir.param.allowed.paths"].split(",")
    assert {str(file.parent) for file in files_in(jvm_options(kafka).values())} == set(folders)


def test_both_clients_of_all_protocols_can_be_made(files):
    authority = Authority(files)
    for kafka in (
        scram(password_file=files / "password", ca_file=authority.file),
        oauth(client_secret_file=files / "client", ca_file=authority.file),
        mutual(authority, key_password_file=files / "key"),
    ):
        Producer({**client_options(kafka), "log_level": 0})
        Consumer({**consumer_options(kafka), "group.id": "tests", "log_level": 0}).close()


def test_a_password_with_quotes_is_escaped_for_java_and_no_other(files):
    kafka = scram(password='qu"ote\\', username='m"e')
    line = jvm_options(kafka)["kafka.sasl.jaas.config"]
    assert 'username="m\\"e"' in line
    assert [read_secret(file) for file in files_in([line])] == ['qu\\"ote\\\\']
    assert client_options(kafka)["sasl.password"] == 'qu"ote\\'


def test_files_that_java_would_read_otherwise_are_told_before_anything_starts(files):
    (files / "broken").write_text('a "password"\n')
    (finding,) = unfit_files(scram(password_file=files / "broken"))
    assert "kafka.security.password_file" in finding.message
    assert "a line break and a quote" in finding.message
    assert "printf" in (finding.hint or "")
    assert 'a "password"' not in finding.render()
    assert unfit_files(scram(password_file=files / "password")) == []
    (files / "a:b").mkdir()
    (files / "a:b" / "password").write_text("x")
    (finding,) = unfit_files(scram(password_file=files / "a:b" / "password"))
    assert "has a colon" in finding.message


def test_the_token_endpoint_has_an_authority_of_its_own(files):
    authority = Authority(files)
    kafka = oauth(client_secret_file=files / "client", ca_file=authority.file)
    assert client_options(kafka)["https.ca.location"] == str(authority.file)
    assert f'ssl.truststore.location="{authority.file}"' in jvm_options(kafka)["kafka.sasl.jaas.config"]


def test_a_key_password_without_a_key_is_refused():
    with pytest.raises(ValueError, match="key_password needs a key_file"):
        Kafka.model_validate({"security": {"key_password": "x"}})


def test_keys_that_java_cannot_read_are_told_before_anything_starts(files, monkeypatch):
    authority = Authority(files)
    kafka = mutual(authority, key_password_file=files / "key")
    assert unfit_files(kafka) == []
    assert "no kafka.security.key_password_file" in unfit_files(mutual(authority))[0].message
    key = load_pem_private_key(kafka.security.key_file.read_bytes(), SECRETS["key"].encode())
    today = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRETS["key"].encode()))
    kafka.security.key_file.write_bytes(today)
    for version, wanted in ((17, 1), (25, 0)):
        monkeypatch.setattr(key_checks, "find_java", lambda version=version: Java(Path("/java"), version, bundled=False))
        assert len(unfit_files(kafka)) == wanted
    kafka.security.key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    (finding,) = unfit_files(kafka)
    assert "holds no PKCS#8 key" in finding.message
