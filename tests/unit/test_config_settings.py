from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.config.durations import format_duration, parse_duration, parse_milliseconds
from app.config.settings import Settings, load_settings
from app.errors import ConfigurationError

WHOLE = """\
application: shop
kafka:
  bootstrap_servers: broker:9092
  client_options: {fetch.max.wait.ms: 100}
streams:
  retail:
    topics: [readings]
    schemas: [schemas/ShelfReading.avsc]
    time: time
    allowed_lateness: 1.5 s
    rename: {tagId: tag_id}
queries:
  paths: [queries, /etc/more]
topics: {prefix: shop}
spark:
  conf: {spark.ui.enabled: false, spark.cores.max: 4}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def findings(folder: Path, text: str, env: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(written(folder, text), env or {})
    return str(caught.value).replace(str(folder) + "/", "")


def test_file_is_read_and_paths_are_relative_to_it(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, WHOLE), {})
    assert settings.streams["retail"].allowed_lateness == 1_500
    assert settings.streams["retail"].schemas == (tmp_path / "schemas/ShelfReading.avsc",)
    assert settings.queries.paths == (tmp_path / "queries", Path("/etc/more"))
    assert settings.topics.late == "shop.late"
    assert settings.topics.of_query("theft") == "shop.theft"
    assert settings.spark.conf == {"spark.ui.enabled": "false", "spark.cores.max": "4"}
    assert settings.kafka.client_options == {"fetch.max.wait.ms": "100"}


def test_defaults_alone_are_enough() -> None:
    assert load_settings(None, {}) == Settings()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().application = "other"  # type: ignore[misc]


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    env = {
        "CEP_KAFKA__BOOTSTRAP_SERVERS": "other:9092",
        "CEP_STREAMS__RETAIL__IDLE_AFTER": "9 s",
        "CEP_STREAMS__STOCK__TOPICS": '["quotes"]',
        "CEP_KAFKA__CLIENT_OPTIONS": '{"linger.ms": 5}',
        "CEP_APPLICATION": "mine",
        "CEP_HTTP__PORT": "0",
        "PATH": "/bin",
    }
    settings = load_settings(written(tmp_path, WHOLE), env)
    assert settings.kafka.bootstrap_servers == "other:9092"
    assert settings.streams["retail"].idle_after == 9_000
    assert settings.streams["retail"].time == "time"
    assert settings.streams["stock"].topics == ("quotes",)
    assert settings.kafka.client_options == {"fetch.max.wait.ms": "100", "linger.ms": "5"}
    assert (settings.application, settings.http.port) == ("mine", 0)


def test_variables_of_others_are_left_alone() -> None:
    assert load_settings(None, {"CEP_PORT": "tcp://10.0.0.1:80", "CEP_SERVICE_HOST": "x"}) == Settings()


def test_all_findings_come_at_once_each_at_its_line(tmp_path: Path) -> None:
    text = """\
kafka:
  bootstrap_server: x
streams:
  retail:
    topics: [t]
    allowed_lateness: 5
http: {port: 99999}
"""
    assert findings(tmp_path, text, {"CEP_SPARK__BUCKETS": "0"}) == (
        """\
settings.yaml:2:3: unknown setting "kafka.bootstrap_server"
    2 |   bootstrap_server: x
      |   ^^^^^^^^^^^^^^^^
hint: did you mean "bootstrap_servers"?
settings.yaml:6:5: streams.retail.allowed_lateness: a duration needs a unit, for instance "5 s"
    6 |     allowed_lateness: 5
      |     ^^^^^^^^^^^^^^^^
settings.yaml:7:8: http.port: input should be less than or equal to 65535
    7 | http: {port: 99999}
      |        ^^^^
CEP_SPARK__BUCKETS:1:1: spark.buckets: input should be greater than 0"""
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "no valid YAML"),
        ("- a", "must be a mapping"),
        ("application: a\napplication: b", '"application" is given twice'),
        ("application: Not OK", "should match pattern"),
        ("kafka: {client_options: {group.id: x}}", "group.id may not be set"),
        ("kafka: {client_options: {sasl.jaas.config: x}}", "belongs under kafka.security"),
        ("kafka: {security: {protocol: SASL_SSL}}", "needs a mechanism"),
        ("kafka: {security: {protocol: SASL_SSL, mechanism: PLAIN}}", "needs username and password"),
        ("kafka: {security: {protocol: SSL, key_file: k}}", "go together"),
        ("delivery: {guarantee: exactly-once}", "'at-least-once'"),
        ("streams: {a: {topics: [t]}, b: {topics: [t]}}", 'topic "t" belongs to the streams a and b'),
        ("streams: {a: {topics: [cep.late]}}", "both read as a stream and written"),
        ("streams: {a: {topics: [t, u], ordered_by: k}}", "ordered_by needs a stream of one topic"),
        ("streams: {a: {schemas: [s], subjects: [u]}}", "either schemas or subjects"),
        ("checkpoint: {path: 'hdfs://names/cep'}", "hdfs:// is no place for a checkpoint; what works: a folder"),
        ("checkpoint: {path: 's3a://key:word@b/c'}", "no credentials in the path"),
        ("checkpoint: {path: 's3a://b/c?region=eu-1'}", "checkpoint.s3.region"),
        ("checkpoint: {path: 's3a://b/c', s3: {endpoint: 'minio:9000'}}", "checkpoint.s3.endpoint"),
        ("checkpoint: {path: /data, s3: {endpoint: 'http://minio:9000'}}", "path /data is a folder"),
        ("streams: {a: {allowed_lateness: 5 parsecs}}", "is no duration"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, text: str, message: str) -> None:
    assert message in findings(tmp_path, text)


def test_missing_file_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read the settings file"):
        load_settings(tmp_path / "none.yaml", {})


def test_secrets_come_from_files_and_never_show(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    env = {
        "CEP_KAFKA__SECURITY__PROTOCOL": "SASL_SSL",
        "CEP_KAFKA__SECURITY__MECHANISM": "SCRAM-SHA-512",
        "CEP_KAFKA__SECURITY__USERNAME": "u",
        "CEP_KAFKA__SECURITY__PASSWORD_FILE": str(secret),
    }
    settings = load_settings(None, env)
    assert settings.kafka.security.password is not None
    assert settings.kafka.security.password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()
    for wrong in ({"CEP_KAFKA__SECURITY__PASSWORD": "12345"}, {"CEP_KAFKA__SECURITY__PASSWORD_FILE": str(tmp_path / "none")}):
        with pytest.raises(ConfigurationError) as caught:
            load_settings(None, {**env, **wrong})
        assert "password" in str(caught.value)


def test_password_of_digits_stays_a_text() -> None:
    assert load_settings(None, {"CEP_SCHEMA_REGISTRY__PASSWORD": "012345"}).schema_registry.password.get_secret_value() == "012345"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("streams: {shop: {topics: shop.events}}", "streams.shop.topics: a list is wanted, as [a, b]"),
        ("streams: [shop]", "streams: a mapping is wanted, as {a: b}"),
        ("kafka: localhost", "kafka: a mapping is wanted, as {a: b}"),
    ],
)
def test_lists_and_mappings_are_asked_for_in_plain_words(tmp_path: Path, text: str, told: str) -> None:
    assert told in findings(tmp_path, text, {})


@pytest.mark.parametrize("text", ["yes", "on", "true", "[abc]", "{x}", "a: b", "null", "12"])
def test_a_setting_that_is_a_text_is_one_whatever_it_looks_like(text: str) -> None:
    named = {"CEP_SCHEMA_REGISTRY__PASSWORD": text, "CEP_STREAMS__S__ORDERED_BY": text, "CEP_STREAMS__S__TOPICS": "[a]"}
    settings = load_settings(None, {**named, "CEP_QUERIES__RELOAD": "{enabled: no}", "CEP_LEARNING__ENABLED": "off"})
    assert settings.schema_registry.password.get_secret_value() == text  # type: ignore[union-attr]
    assert settings.streams["s"].ordered_by == text
    assert settings.streams["s"].topics == ("a",)
    assert (settings.queries.reload.enabled, settings.learning.enabled) == (False, False)


@pytest.mark.parametrize(
    "text",
    [
        "kafka: {client_options: {sasl.jaas.config: 'org.apache PlainLoginModule required password=\"hunter2\";'}}",
        "spark: {conf: {spark.hadoop.fs.s3a.secret.key: hunter2}}",
        "spark: {conf: {spark.hadoop.fs.s3a.access.key: hunter2}}",
        '{"kafka": {"client_options": {"ssl.keystore.password": "hunter2"}}}',
    ],
)
def test_a_secret_in_a_line_that_a_finding_shows_is_masked(tmp_path: Path, text: str) -> None:
    told = findings(tmp_path, text, {})
    assert "***" in told
    assert "hunter2" not in told


def test_findings_never_show_secrets(tmp_path: Path) -> None:
    text = "kafka: {security: {protocol: SASL_SSL, mechanism: NONE, username: u, oauth: {client_secret: hunter2, x: 1}}}"
    assert "hunter2" not in findings(
        tmp_path, text, {"CEP_KAFKA__SECURITY__PASSWORD": "hunter2", "CEP_KAFKA__SECURITY__PASSWORDS": "hunter2"}
    )


def test_source_topics_are_sorted_with_the_heartbeat_among_them() -> None:
    settings = Settings.model_validate({"streams": {"a": {"topics": ["z", "b"]}, "c": {"topics": ["x"]}}})
    assert settings.source_topics == ("b", "cep.heartbeat", "x", "z")
    assert settings.stream_of("x") == "c"
    assert settings.stream_of("cep.heartbeat") is None


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("5 s", 5_000), ("5s", 5_000), ("1.5 hours", 5_400_000), ("200 ms", 200), ("2 weeks", 1_209_600_000), ("0 s", 0), ("1 min", 60_000)],
)
def test_durations_are_read_and_written(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("text", "exact", "rounded"), [("1.001 s", 1001, 1001), ("0.5 ms", 0.5, 0), ("0.0001 s", 0.1, 0), ("2.6 ms", 2.6, 3)]
)
def test_durations_have_fractions_until_they_are_settings(text: str, exact: float, rounded: int) -> None:
    assert parse_milliseconds(text) == exact
    assert isinstance(parse_milliseconds(text), type(exact))
    assert parse_duration(text) == rounded


@pytest.mark.parametrize("text", ["5", "s", "-5 s", "5 parsecs", "", 5, None, "5 S"])
def test_no_duration(text: object) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize("path", ["s3a://b/c", "s3://b/c/"])
def test_a_checkpoint_in_a_bucket_is_known_to_spark_and_to_us(path: str) -> None:
    checkpoint = Settings.model_validate(
        {"checkpoint": {"path": path, "s3": {"endpoint": "http://minio:9000", "region": "eu-1"}}}
    ).checkpoint
    assert checkpoint.spark_location == "s3a://b/c/spark"
    assert checkpoint.uri == "s3://b/c?scheme=http&endpoint_override=minio%3A9000&region=eu-1"


@pytest.mark.parametrize("path", ["/data/c", "file:/data/c", "file:///data/c"])
def test_a_checkpoint_in_a_folder_is_known_to_spark_and_to_us(path: str) -> None:
    checkpoint = Settings.model_validate({"checkpoint": {"path": path}}).checkpoint
    assert (checkpoint.uri, checkpoint.spark_location) == ("/data/c", "/data/c/spark")
