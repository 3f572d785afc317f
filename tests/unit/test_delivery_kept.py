"""Kafka clients that stay: made anew when the files of their secrets are exchanged, and only then."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer

from app.config.secret_files import reference
from app.config.settings import Kafka
from app.delivery.kept import KeptClient, KeptProducer, files_of
from app.delivery.security import shipped_options
from app.errors import ConfigurationError
from tests.certificates import Authority, replace


class Client:
    def __init__(self, options: dict[str, str]) -> None:
        if options["sasl.password"] == "refused":
            raise KafkaException(FakeError())
        self.options, self.ended = options, False

    def end(self) -> None:
        self.ended = True


class FakeError:
    def str(self) -> str:
        return "no such certificate"


@pytest.fixture
def kept(tmp_path) -> KeptClient[Client]:
    (tmp_path / "password").write_text("first")
    return KeptClient({"sasl.password": reference(tmp_path / "password"), "linger.ms": 0}, Client, Client.end)


def test_a_client_is_made_when_it_is_first_needed_and_stays(kept, tmp_path):
    replace(tmp_path / "password", "exchanged before that")
    client = kept()
    assert client.options == {"sasl.password": "exchanged before that", "linger.ms": 0}
    assert kept() is kept()


def test_an_exchanged_secret_makes_a_new_client_and_ends_the_one_before(kept, tmp_path):
    before = kept()
    replace(tmp_path / "password", "second")
    after = kept()
    assert (after.options["sasl.password"], before.ended, after.ended) == ("second", True, False)
    assert kept() is after
    kept.close()
    assert after.ended


@pytest.mark.parametrize("trouble", ["gone", "refused"])
def test_while_the_new_secret_cannot_be_used_the_client_goes_on(kept, tmp_path, trouble):
    before = kept()
    if trouble == "gone":
        (tmp_path / "password").unlink()
    else:
        replace(tmp_path / "password", trouble)
    assert kept() is before
    assert not before.ended
    replace(tmp_path / "password", "third")
    assert kept().options["sasl.password"] == "third"


def test_a_first_client_that_cannot_be_made_is_told_as_the_settings_mistake(kept, tmp_path):
    replace(tmp_path / "password", "refused")
    with pytest.raises(ConfigurationError, match=r"kafka\.security: no such certificate"):
        kept()


def test_certificates_and_keys_are_looked_at_as_well(tmp_path):
    authority = Authority(tmp_path)
    own = authority.issue("me", "a key's password")
    (tmp_path / "password").write_text("a key's password")
    security = {"protocol": "SSL", "ca_file": authority.file, "certificate_file": own.certificate, "key_file": own.key}
    security |= {"key_password_file": tmp_path / "password"}
    options = shipped_options(Kafka.model_validate({"security": security}))
    assert set(files_of(options)) == {authority.file, own.certificate, own.key, tmp_path / "password"}
    assert "a key's password" not in str(options)
    kept = KeptClient(options, Producer, lambda producer: producer.flush(0))
    before = kept()
    assert kept() is before
    authority.issue("me", "a key's password")
    assert kept() is not before


def test_a_producer_that_is_exchanged_is_one_for_who_writes(tmp_path):
    (tmp_path / "password").write_text("first")
    options = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "me", "bootstrap.servers": "127.0.0.1:9"}
    producer = KeptProducer({**options, "sasl.password": reference(tmp_path / "password"), "message.timeout.ms": 100, "log_level": 0})
    told = []
    producer.produce("topic", b"", on_delivery=lambda error, _: told.append(error))
    replace(tmp_path / "password", "second")
    producer.poll(0)
    assert len(told) == 1, "the last words of the one before"
    producer.produce("topic", b"", on_delivery=lambda error, _: told.append(error))
    producer.flush(30)
    assert len(told) == 2
