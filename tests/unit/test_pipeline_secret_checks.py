"""What is said about secrets before anything starts, and what Spark is told."""

from __future__ import annotations

import base64
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from structlog.testing import capture_logs

from app.config.secret_files import read_secret
from app.config.settings import Settings
from app.errors import ConfigurationError, DependencyError
from app.events.registry import Registry, registry_settings
from app.pipeline import session
from app.pipeline.batches import Batches, BatchRules
from app.pipeline.secret_checks import check_secrets
from tests.certificates import replace


def settings(master: str = "k8s://there", **more: object) -> Settings:
    return Settings.model_validate({"spark": {"master": master, **more.pop("spark", {})}, **more})


def told(of: Settings) -> str:
    with pytest.raises(ConfigurationError) as error:
        check_secrets(of)
    return str(error.value)


def test_on_one_machine_nothing_is_needed():
    check_secrets(settings("local[2]"))
    check_secrets(settings("local[2]", schema_registry={"username": "me", "password": "a value"}))


def test_executors_elsewhere_need_files_a_token_and_a_driver_that_they_can_reach(tmp_path):
    text = told(settings(schema_registry={"username": "me", "password": "a value"}))
    for expected in ("schema_registry.password: executors on other machines", "http.task_token_file is needed", "http.host: executors"):
        assert expected in text
    assert "a value" not in text
    for name in ("token", "password"):
        (tmp_path / name).write_text("long enough for a token")
    http = {"host": "0.0.0.0", "task_token_file": str(tmp_path / "token")}
    check_secrets(settings(http=http, schema_registry={"username": "me", "password_file": str(tmp_path / "password")}))


def test_what_client_options_reach_is_logged():
    with capture_logs() as logs:
        check_secrets(
            settings("local[1]", kafka={"client_options": {"client.rack": "a", "max.request.size": 9000000, "default.api.timeout.ms": 1}})
        )
    (line,) = logs
    assert line["both"] == ("client.rack",)
    assert line["librdkafka_calls_it"] == {"max.request.size": "message.max.bytes"}
    assert line["spark_only"] == ("default.api.timeout.ms",)


@pytest.mark.parametrize("name", ["spark.hadoop.fs.s3a.secret.key", "spark.authenticate.secret", "spark.ssl.keyPassword", "spark.my.token"])
def test_sparks_settings_take_no_secrets(name):
    """They stand in the command line of its JVM."""
    with pytest.raises(ValueError, match="process list"):
        settings("local[1]", spark={"conf": {name: "x"}})
    settings(
        "local[1]",
        spark={"conf": {"spark.authenticate.secret.file": "/etc/x", "spark.kubernetes.authenticate.driver.oauthTokenFile": "/x"}},
    )


class Guarded(BaseHTTPRequestHandler):
    """A registry without subjects that wants a password."""

    password: ClassVar[str]
    shown: ClassVar[list[str]]

    def do_GET(self) -> None:
        shown = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        self.shown.append(shown)
        self.send_response(200 if shown == f"me:{self.password}" else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def guarded() -> Iterator[tuple[str, type[Guarded]]]:
    handler = type("Handler", (Guarded,), {"password": "first", "shown": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()


def test_the_registrys_password_travels_as_its_file_and_is_read_again_when_that_is_exchanged(guarded, tmp_path):
    url, handler = guarded
    (tmp_path / "password").write_text("first")
    written = {"url": url, "username": "me", "password_file": str(tmp_path / "password"), "timeout": "60 s"}
    travels = pickle.dumps(registry_settings(settings(schema_registry=written).schema_registry))
    assert b"first" not in travels
    registry = Registry(pickle.loads(travels))
    registry.check()
    handler.password = "second"
    with pytest.raises(DependencyError, match="refuses access"):
        registry.check()
    replace(tmp_path / "password", "second")
    registry.check()
    assert set(handler.shown) == {"me:first", "me:second"}


@pytest.fixture
def conf_of(monkeypatch):
    for name in ("driver_class_path", "connector_jars"):
        monkeypatch.setattr(session, name, lambda: [Path("/jar")])
    monkeypatch.setattr(session, "class_archive", lambda: None)
    return session.own_settings


def test_spark_authenticates_its_connections_and_encrypts_those_between_machines(conf_of, tmp_path):
    (tmp_path / "token").write_text("a token of the application")
    http = {"task_token_file": str(tmp_path / "token")}
    cluster = settings(http=http)
    conf = conf_of(cluster)
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.authenticate.secret.file"] == str(tmp_path / "token")
    assert conf["spark.network.crypto.enabled"] == "true"
    assert "a token of the application" not in str(conf)
    assert session.secret_conf(cluster) == {}
    local = conf_of(settings("local[2]"))
    assert local["spark.authenticate"] == "true"
    assert "spark.network.crypto.enabled" not in local
    assert conf_of(settings("local-cluster[1,1,512]", spark={"encryption": "on"}))["spark.network.crypto.enabled"] == "true"
    assert "spark.network.crypto.enabled" not in conf_of(settings(http=http, spark={"encryption": "off"}))


def test_with_several_jvms_on_one_machine_sparks_secret_is_given_past_the_command_line(conf_of, tmp_path):
    (tmp_path / "token").write_text("a token of the application")
    asked = settings("local-cluster[1,1,512]", http={"task_token_file": str(tmp_path / "token")})
    (secret,) = session.secret_conf(asked).values()
    assert secret not in str(conf_of(asked))
    assert secret != read_secret(tmp_path / "token")


def test_owners_are_told_where_the_token_is_and_whether_to_encrypt(tmp_path):
    (tmp_path / "token").write_text("a token of the application")
    http = {"task_token_file": str(tmp_path / "token")}
    slots = session.owner_slots(settings(http=http))
    assert "a token" not in slots.to_text()
    assert (slots.key.token, slots.key.encrypted) == (b"a token of the application", True)
    assert session.owner_slots(settings("local[3]", http=http)).key.encrypted is False
    assert session.owner_slots(settings("local[3]", http=http, spark={"encryption": "on"})).key.encrypted is True


def test_java_may_ask_the_configured_token_endpoint_and_no_other(conf_of):
    oauth = {"token_endpoint_url": "https://tokens/token", "client_id": "me", "client_secret": "a secret"}
    conf = conf_of(settings("local[1]", kafka={"security": {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": oauth}}))
    for who in ("driver", "executor"):
        assert "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://tokens/token" in conf[f"spark.{who}.extraJavaOptions"]
    assert "a secret" not in str(conf)


def test_credentials_that_stay_refused_are_a_missing_dependency_and_no_fault_of_the_batch():
    """Whoever restarts us is told to try again later, and nobody is advised to leave records out."""
    batches = object.__new__(Batches)  # of what this asks nothing else counts
    batches._rules, batches._asked_to_stop = BatchRules(1, attempts=2, strict=True), threading.Event()
    batches._asked_to_stop.set()  # nobody waits in a test
    refused = "Job aborted\norg.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed"
    batches._let_it_return(refused, 1)
    batches._let_it_return("ValueError: a value too many", 2)
    with pytest.raises(DependencyError, match="the broker refuses these credentials"):
        batches._let_it_return(refused, 2)


def test_storage_that_is_away_for_a_task_is_waited_for_and_no_fault_of_the_batch() -> None:
    batches = object.__new__(Batches)
    batches._rules, batches._asked_to_stop = BatchRules(1, attempts=2, strict=True), threading.Event()
    batches._asked_to_stop.set()
    away = "Job aborted\napp.storage.store.StorageAwayError: cannot read models/a in s3://b: timeout"
    batches._let_it_return(away, 1)
    with pytest.raises(DependencyError, match="cannot read models/a"):
        batches._let_it_return(away, 2)
