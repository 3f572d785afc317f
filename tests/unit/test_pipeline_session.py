"""What a checkpoint asks of Spark's session."""

from pathlib import Path

import pytest

from app.config.settings import Settings
from app.pipeline import session


@pytest.fixture
def conf_of(monkeypatch):
    monkeypatch.setattr(session, "driver_class_path", lambda: [Path("/spark/spark.jar")])
    monkeypatch.setattr(session, "class_archive", lambda: None)
    monkeypatch.setattr(session, "connector_jars", lambda: [Path("/jars/kafka.jar")])
    monkeypatch.setattr(session, "s3_jars", lambda: [Path("/jars/a.jar"), Path("/jars/b.jar")])
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    return lambda checkpoint: session.own_settings(Settings.model_validate({"checkpoint": checkpoint}))


def test_a_checkpoint_in_a_folder_needs_nothing_of_s3(conf_of):
    conf = conf_of({"path": "/data"})
    assert not any("s3a" in name for name in conf)
    assert conf["spark.driver.extraClassPath"] == "/spark/spark.jar"


def test_another_server_is_asked_path_style(conf_of):
    conf = conf_of({"path": "s3a://b/c", "s3": {"endpoint": "http://minio:9000", "region": "eu-1"}})
    assert conf["spark.driver.extraClassPath"] == "/spark/spark.jar:/jars/a.jar:/jars/b.jar"
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://minio:9000"
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "eu-1"


def test_amazons_servers_are_found_by_region(conf_of, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    conf = conf_of({"path": "s3://b/c"})
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"
    assert "spark.hadoop.fs.s3a.endpoint" not in conf


def test_no_credentials_are_in_sparks_settings(conf_of, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    conf = conf_of({"path": "s3://b/c"})
    assert "a-secret" not in str(conf)
    assert conf["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(".DefaultCredentialsProvider")


def test_an_archive_of_classes_is_used_when_it_was_made(conf_of, monkeypatch):
    assert "SharedArchiveFile" not in conf_of({"path": "/data"})["spark.driver.extraJavaOptions"]
    monkeypatch.setattr(session, "class_archive", lambda: Path("/cache/a.jsa"))
    assert "-XX:SharedArchiveFile=/cache/a.jsa" in conf_of({"path": "/data"})["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("master", "wanted"), [("local[2]", None), ("local-cluster[2,1,1024]", "/jars/kafka.jar"), ("k8s://there", "/jars/kafka.jar")]
)
def test_executors_of_their_own_get_the_connector(conf_of, master, wanted):
    conf = session.own_settings(Settings.model_validate({"spark": {"master": master}}))
    assert conf.get("spark.jars") == wanted


def test_executors_of_their_own_are_not_collected_for_classes_either(conf_of):
    oauth = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "oauth": {"token_endpoint_url": "https://tokens/token", "client_id": "c"}}
    for master, alone in (("local[2]", True), ("k8s://there", False)):
        conf = session.own_settings(Settings.model_validate({"spark": {"master": master}}))
        secured = session.own_settings(Settings.model_validate({"spark": {"master": master}, "kafka": {"security": oauth}}))
        for one in (conf, secured):
            assert session.FEW_COLLECTIONS in one["spark.driver.extraJavaOptions"]
            assert (session.FEW_COLLECTIONS in one.get("spark.executor.extraJavaOptions", "")) is not alone
        for who in ("driver", "executor"):
            assert "=https://tokens/token" in secured[f"spark.{who}.extraJavaOptions"]


def test_the_drivers_heap_is_as_large_as_it_may_be_from_the_start():
    for given, memory in (({}, "1g"), ({"spark.driver.memory": "3g"}, "3g")):
        conf = session.own_settings(Settings.model_validate({"spark": {"conf": given}}))
        assert conf["spark.driver.memory"] == memory
        assert f"-Xms{memory}" in conf["spark.driver.extraJavaOptions"].split()


def test_a_class_path_of_the_users_comes_behind_ours():
    own = {"spark.driver.extraClassPath": "/spark/spark.jar", "spark.app.name": "cep"}
    given = {"spark.driver.extraClassPath": "/opt/mine.jar", "spark.app.name": "other"}
    assert session.with_users(own, given) == {"spark.driver.extraClassPath": "/spark/spark.jar:/opt/mine.jar", "spark.app.name": "other"}
    assert session.with_users(own, {}) == own
