"""Values that must be refused, and the schema and the comments in step with the values."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from tests.chart.conftest import CHART, REQUIRED
from tests.chart.settings_schema import SCHEMA, settings_definitions

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"executors": {"instances": 3}}, "executors"),
    "unknown key below": ({"executor": {"count": 3}}, "count"),
    "unknown mode": ({"mode": "cluster"}, "mode"),
    "no executors": ({"executor": {"instances": 0}}, "instances"),
    "two drivers": ({"driver": {"replicas": 2}}, "replicas"),
    "claim of one node in client mode": ({"checkpoint": {"pvc": {"accessModes": ["ReadWriteOnce"]}}}, "accessModes"),
    "uri without uri": ({"checkpoint": {"type": "uri"}}, "uri"),
    "checkpoint in HDFS": ({"checkpoint": {"type": "uri", "uri": "hdfs://names/cep"}}, "uri"),
    "credentials in the checkpoint's path": ({"checkpoint": {"type": "uri", "uri": "s3a://key:word@b/c"}}, "uri"),
    "options in the checkpoint's path": ({"checkpoint": {"type": "uri", "uri": "s3a://b/c?region=eu-1"}}, "uri"),
    "S3 endpoint without scheme": ({"checkpoint": {"s3": {"endpoint": "minio:9000"}}}, "endpoint"),
    "checkpoint in an emptyDir": ({"checkpoint": {"type": "emptyDir"}}, "type"),
    "brokers without port": ({"kafka": {"bootstrapServers": "kafka"}}, "bootstrapServers"),
    "SASL without mechanism": ({"kafka": {"security": {"protocol": "SASL_SSL"}}}, "mechanism"),
    "SCRAM without a Secret": (
        {"kafka": {"security": {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "u", "keys": {"password": "p"}}}},
        "existingSecret",
    ),
    "SCRAM over plain text": (
        {
            "kafka": {
                "security": {
                    "protocol": "PLAINTEXT",
                    "mechanism": "SCRAM-SHA-512",
                    "username": "u",
                    "existingSecret": "s",
                    "keys": {"password": "p"},
                }
            }
        },
        "protocol",
    ),
    "registry without scheme": ({"schemaRegistry": {"url": "registry:8081"}}, "url"),
    "query file that is no YAML file": ({"queries": {"inline": {"a.txt": "name: a"}}}, "a.txt"),
    "query that is a tree": ({"queries": {"inline": {"a.yaml": {"name": "a"}}}}, "a.yaml"),
    "digest of another kind": ({"image": {"digest": "md5:0"}}, "digest"),
    "memory without unit": ({"executor": {"memory": "1024"}}, "memory"),
    "number for a Spark setting": ({"spark": {"conf": {"spark.executor.heartbeatInterval": 10}}}, "heartbeatInterval"),
    "unknown setting": ({"settings": {"watchdgo": {}}}, "watchdgo"),
    "duration without unit": ({"settings": {"watchdog": {"interval": 5}}}, "interval"),
    "unknown setting of a stream": ({"streams": {"retail": {"topic": "retail"}}}, "topic"),
    "an autoscaler": ({"autoscaling": {"enabled": True}}, "autoscaling"),
    "executors that come and go": ({"spark": {"conf": {"spark.dynamicAllocation.enabled": "true"}}}, "dynamicAllocation"),
    "two monitors": ({"metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}}, "metrics"),
    "tokens from nowhere": (
        {
            "kafka": {
                "security": {
                    "protocol": "SASL_SSL",
                    "mechanism": "OAUTHBEARER",
                    "oauth": {"clientId": "c"},
                    "secret": {"clientSecret": "s"},
                }
            }
        },
        "tokenEndpointUrl",
    ),
    "tokens without a secret": (
        {
            "kafka": {
                "security": {
                    "protocol": "SASL_SSL",
                    "mechanism": "OAUTHBEARER",
                    "oauth": {"tokenEndpointUrl": "https://login.example", "clientId": "c"},
                }
            }
        },
        "clientSecret",
    ),
    "a certificate without its key": (
        {"kafka": {"security": {"protocol": "SSL", "existingSecret": "s", "keys": {"certificate": "user.crt"}}}},
        "privateKey",
    ),
    "a certificate of no Secret": (
        {"kafka": {"security": {"protocol": "SSL", "keys": {"certificate": "user.crt", "privateKey": "user.key"}}}},
        "existingSecret",
    ),
    "Strimzi without a cluster": ({"topics": {"provision": "strimzi"}}, "cluster"),
    "topics by magic": ({"topics": {"provision": "auto"}}, "provision"),
    "an objective of all": ({"prometheusRule": {"thresholds": {"objective": 1}}}, "objective"),
    "a share of executors that must stay": ({"podDisruptionBudget": {"executor": {"minAvailable": "50%"}}}, "minAvailable"),
    "an interval without unit": ({"metrics": {"serviceMonitor": {"interval": "15"}}}, "interval"),
    "query names for a shell": ({"reconcile": {"queries": ["a; rm -rf /"]}}, "queries"),
    "a password in a ConfigMap": ({"settings": {"kafka": {"security": {"password": "p"}}}}, "password"),
    "the settings' port against the chart's": ({"settings": {"http": {"port": 9000}}}, "port"),
    "a host's name to listen on": ({"service": {"listenAddress": "localhost"}}, "listenAddress"),
    "DNS at no port": ({"networkPolicy": {"dnsPorts": []}}, "dnsPorts"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_cannot_work_are_refused_and_named(run_helm, case):
    values, name = REFUSED[case]
    done = run_helm("template", values)
    assert done.returncode != 0
    assert name in done.stderr, done.stderr


def test_a_grace_period_that_cuts_batches_off_is_refused(run_helm):
    done = run_helm("template", {"driver": {"terminationGracePeriodSeconds": 30, "stopTimeoutSeconds": 30}})
    assert "terminationGracePeriodSeconds must be longer" in done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [({"kafka": {"bootstrapServers": ""}}, "bootstrapServers"), ({"schemaRegistry": {"url": ""}}, "schemaRegistry.url")],
)
def test_what_nobody_can_guess_is_asked_for(run_helm, values, message):
    assert f"{message} is required" in run_helm("template", values).stderr


def test_old_clusters_are_refused(run_helm):
    assert "kubeVersion" in run_helm("template", None, "--kube-version", "1.31.0").stderr


@pytest.mark.parametrize(("wanted", "made"), [("true", True), ("false", False)])
def test_a_chart_that_has_this_one_as_a_dependency_may_switch_it(helm, tmp_path, wanted, made):
    """`condition: cep.enabled` looks at a value that is then handed down with the others."""
    parent = tmp_path / "shop"
    shutil.copytree(CHART, parent / "charts" / "cep")
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["version"]
    needs = {"name": "cep", "version": version, "condition": "cep.enabled"}
    about = {"apiVersion": "v2", "name": "shop", "version": "1.0.0", "dependencies": [needs]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    (parent / "values.yaml").write_text(yaml.safe_dump({"cep": REQUIRED}), encoding="utf-8")
    argv = [helm, "template", "shop", str(parent), "--set", f"cep.enabled={wanted}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert ("kind: StatefulSet" in done.stdout) == made


def test_settings_in_the_schema_are_the_applications():
    assert json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"] == settings_definitions(), "run python -m tests.chart.settings_schema"


def leaves(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> list[str]:
    """Paths of values that the schema does not know."""
    known = schema.get("properties", {})
    missing = [f"{path}{key}" for key in values if key not in known]
    for key, value in values.items():
        if isinstance(value, dict) and key in known and "properties" in known[key]:
            missing += leaves(value, known[key], f"{path}{key}.")
    return missing


def test_every_value_is_in_the_schema():
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert leaves(values, json.loads(SCHEMA.read_text(encoding="utf-8"))) == []


def test_every_value_has_a_comment():
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    bare = []
    commented_above: int | None = None  # indentation of a commented key: what lies deeper is its default
    for before, line in zip(["", *lines], lines, strict=False):
        found = re.match(r"^( *)([A-Za-z]+):( *)(.*)$", line)
        if not found:
            continue
        indent, opens = len(found[1]), not found[4]
        if commented_above is not None and indent > commented_above:
            continue
        commented_above = indent if before.strip().startswith("# --") else None
        if commented_above is None and not opens:
            bare.append(found[2])
    assert bare == []
