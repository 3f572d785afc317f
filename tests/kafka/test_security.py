"""Every supported way to speak with a broker, spoken to a real one by both clients: Spark's (Java) and ours (librdkafka)."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from app.config.settings import Settings, load_settings
from app.delivery.originals import OriginalReader
from app.delivery.security import client_options, shipped_consumer_options, shipped_options, unfit_files
from app.owners.egress import Records
from app.owners.outlet import KafkaOutlet
from app.pipeline.session import start_session
from app.pipeline.source import _kafka_options, ranged_records
from tests.kafka.application import until
from tests.kafka.secured import WAYS, Secured, secured_services

RECORDS = 5
_numbers = itertools.count()


@pytest.fixture(scope="module")
def secured(tmp_path_factory) -> Iterator[Secured]:
    with secured_services(tmp_path_factory.mktemp("secured")) as services:
        yield services


@pytest.fixture(scope="module")
def spark(secured, tmp_path_factory):
    """For all ways; Java may ask the token endpoint because the settings name it."""
    session = start_session(settings_for(secured, "oauth", tmp_path_factory.mktemp("spark")))
    yield session
    session.stop()


def settings_for(secured: Secured, way: str, folder) -> Settings:
    file = folder / f"{way}.yaml"
    kafka = {**secured.kafka(way), "client_options": {"librdkafka.reconnect.backoff.max.ms": "200", "java.reconnect.backoff.max.ms": "200"}}
    file.write_text(yaml.safe_dump({"kafka": kafka, "spark": {"master": "local[1]"}, "topics": {"prefix": way}}))
    return load_settings(file, {})


@pytest.fixture
def settings(secured, request, tmp_path) -> Settings:
    return settings_for(secured, request.param, tmp_path)


def topic_of(settings: Settings) -> str:
    name = f"secured-{next(_numbers)}"
    admin = AdminClient({**client_options(settings.kafka), "log_level": 0})
    for future in admin.create_topics([NewTopic(name, 1, 1)], request_timeout=60).values():
        future.result(timeout=90)
    return name


def written(settings: Settings, topic: str) -> list[bytes]:
    """Records that the owners' producer has written, as the broker's answers say."""
    values = [f"{topic} {number}".encode() for number in range(RECORDS)]
    outlet = KafkaOutlet(shipped_options(settings.kafka), 1_000_000)
    outlet.send(Records(topics=[topic] * RECORDS, keys=[b"key"] * RECORDS, values=list(values), headers=[()] * RECORDS))
    assert outlet.flush() == RECORDS
    return values


@pytest.mark.timeout(600)
@pytest.mark.parametrize("settings", WAYS, indirect=True)
def test_our_own_clients_administer_write_and_read(settings):
    assert unfit_files(settings.kafka) == []
    topic = topic_of(settings)
    values = written(settings, topic)
    reader = OriginalReader(shipped_consumer_options(settings.kafka), timeout_s=120.0)
    assert [one.value for one in reader.read(topic, 0, range(RECORDS))] == values
    reader.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("settings", WAYS, indirect=True)
def test_sparks_source_reads_what_our_own_clients_wrote(settings, spark):
    topic = topic_of(settings)
    values = written(settings, topic)
    frame = ranged_records(spark, settings, {(topic, 0): (0, RECORDS)})
    assert sorted(bytes(row.value) for row in frame.select("value").collect()) == values
    plan = frame._jdf.queryExecution().toString()
    assert "planted-" not in plan


def refused_by(settings: Settings) -> str:
    """What our own client is told when the broker does not let it in."""
    told: list[str] = []
    admin = AdminClient({**client_options(settings.kafka), "log_level": 0, "error_cb": lambda error: told.append(str(error))})
    with contextlib.suppress(KafkaException):
        admin.list_topics(timeout=1)
        raise AssertionError("the broker let us in")

    def asked() -> bool:
        admin.poll(0.2)
        return bool(told)

    until(asked)
    return " ".join(told)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("way", "file", "why"),
    [
        ("scram", "password", "uthentication"),
        ("oauth", "client-secret", "(?i)token|oidc|401"),
        ("mutual", "client.crt", "(?i)ssl|certificate|disconnected|handshake"),
    ],
)
def test_nobody_gets_in_with_another_secret(secured, tmp_path, way, file, why):
    """Else the tests above would show nothing: the broker does ask."""
    settings = settings_for(secured, way, tmp_path)
    if way == "mutual":
        security = settings.kafka.security.model_copy(
            update={"certificate_file": None, "key_file": None, "key_password": None, "key_password_file": None}
        )
    elif way == "scram":
        (tmp_path / file).write_text("a guess")
        security = settings.kafka.security.model_copy(update={"password_file": tmp_path / file})
    else:
        (tmp_path / file).write_text("a guess")
        oauth = settings.kafka.security.oauth.model_copy(update={"client_secret_file": tmp_path / file})
        security = settings.kafka.security.model_copy(update={"oauth": oauth})
    wrong = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"security": security})})
    assert re.search(why, told := refused_by(wrong)), told


@pytest.mark.timeout(600)
def test_a_password_that_is_exchanged_on_both_sides_is_used_by_clients_that_stay(secured, tmp_path):
    settings = settings_for(secured, "scram", tmp_path)
    topic, before = topic_of(settings), secured.secrets["password"]
    outlet = KafkaOutlet(shipped_options(settings.kafka), 1_000_000)
    reader = OriginalReader(shipped_consumer_options(settings.kafka), timeout_s=120.0)

    def send(value: bytes) -> None:
        outlet.send(Records(topics=[topic], keys=[b"key"], values=[value], headers=[()]))
        assert outlet.flush() == 1

    send(b"first")
    assert next(reader.read(topic, 0, [0])).value == b"first"
    try:
        secured.exchange_password("planted-password-exchanged")
        send(b"second")
        assert next(reader.read(topic, 0, [1])).value == b"second"
    finally:
        secured.exchange_password(before)
        reader.close()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_sparks_stream_goes_on_when_the_password_is_exchanged_on_both_sides(secured, spark, tmp_path):
    """The broker asks again on connections that are kept, and the password of old is refused: a task fails, is repeated, and reads the file again."""
    settings = settings_for(secured, "scram", tmp_path)
    topic, before = topic_of(settings), secured.secrets["password"]
    first = written(settings, topic)
    options = {**_kafka_options(settings), "subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING) AS value")
    query = frame.writeStream.format("memory").queryName("exchanged").option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    def has(values: list[bytes]) -> bool:
        assert query.isActive, query.exception()
        return {value.decode() for value in values} <= {row.value for row in spark.sql("select value from exchanged").collect()}

    try:
        until(lambda: has(first), seconds=240)
        secured.exchange_password("planted-password-exchanged-again")
        second = written(settings, topic)
        until(lambda: has(second), seconds=240)
    finally:
        query.stop()
        secured.exchange_password(before)
