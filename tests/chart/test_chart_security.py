"""What the chart makes of secrets: who gets which, and that none is written down anywhere else."""

from __future__ import annotations

import base64
import copy
import json

import pytest

from tests.chart.chart_values import PERMUTATIONS


def mounts(pod) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}


def volumes(pod) -> dict[str, dict]:
    return {volume["name"]: volume for volume in pod["spec"]["volumes"]}


def test_driver_and_executors_find_the_token_of_the_release_in_a_file_and_in_no_environment(render):
    rendered = render()
    secret = rendered.one("Secret", "-internal")
    token = base64.b64decode(secret["data"]["token"]).decode()
    assert len(token) == 48
    for pod in (rendered.driver, rendered.executor):
        assert mounts(pod)["/etc/cep/internal"] == "internal-secret"
        assert volumes(pod)["internal-secret"]["secret"]["secretName"] == secret["metadata"]["name"]
    assert rendered.settings["http"]["task_token_file"] == "/etc/cep/internal/token"
    others = [thing for thing in rendered.objects if thing is not secret]
    assert token not in json.dumps(others)
    assert secret["data"]["token"] not in json.dumps(others)


def test_a_token_of_somebody_elses_is_used_and_none_is_made(render):
    rendered = render({"internalToken": {"existingSecret": "mine", "key": "word"}})
    assert "Secret" not in rendered.kinds()
    secret = volumes(rendered.executor)["internal-secret"]["secret"]
    assert (secret["secretName"], secret["items"]) == ("mine", [{"key": "word", "path": "token"}])


def test_the_driver_alone_needs_no_token_for_itself(render):
    rendered = render({"mode": "local"})
    assert "Secret" not in rendered.kinds()
    assert "/etc/cep/internal" not in mounts(rendered.driver)
    assert "task_token_file" not in rendered.settings["http"]


def test_probes_and_metrics_have_a_port_of_their_own(render):
    rendered = render({"service": {"controlPort": 9090}})
    assert rendered.settings["http"]["port"] == 8080
    assert rendered.settings["http"]["control"] == {"port": 9090}
    ports = {port["name"]: port["containerPort"] for port in rendered.driver["spec"]["containers"][0]["ports"]}
    assert (ports["http"], ports["control"]) == (8080, 9090)
    assert [port["targetPort"] for port in rendered.one("Service", "-metrics")["spec"]["ports"]] == ["http"]
    assert {"name": "control", "port": 9090, "targetPort": "control"} in rendered.one("Service", "-driver")["spec"]["ports"]


def test_the_control_ports_token_and_certificate_reach_the_driver_alone(render):
    rendered = render({"control": {"existingSecret": "operators", "tokenKey": "word", "readWithToken": True, "tlsSecret": "console-tls"}})
    assert rendered.settings["http"]["control"] == {
        "port": 8081,
        "token_file": "/etc/cep/control/word",
        "read_with_token": True,
        "certificate_file": "/etc/cep/control-tls/tls.crt",
        "key_file": "/etc/cep/control-tls/tls.key",
    }
    assert {mounts(rendered.driver)[path] for path in ("/etc/cep/control", "/etc/cep/control-tls")} == {"control-secret", "control-tls"}
    assert volumes(rendered.driver)["control-tls"]["secret"]["secretName"] == "console-tls"
    assert not {"control-secret", "control-tls"} & volumes(rendered.executor).keys()


def test_reading_with_a_token_that_nobody_has_is_refused(run_helm):
    done = run_helm("lint", {"control": {"readWithToken": True}})
    assert done.returncode != 0


def test_the_driver_listens_where_the_values_say(render):
    assert render().settings["http"]["host"] == "0.0.0.0"
    assert render({"service": {"listenAddress": "::"}}).settings["http"]["host"] == "::"


def test_an_encrypted_key_has_its_password_in_the_same_secret(render):
    values = copy.deepcopy(PERMUTATIONS["mutual-tls"])
    values["kafka"]["security"]["keys"]["privateKeyPassword"] = "user.password"
    assert render(values).settings["kafka"]["security"]["key_password_file"] == "/etc/cep/kafka/user.password"


@pytest.mark.parametrize("name", PERMUTATIONS)
def test_files_of_secrets_are_never_subpath_mounts_which_do_not_change(render, name):
    rendered = render(copy.deepcopy(PERMUTATIONS[name]))
    for pod in [rendered.driver] + ([rendered.executor] if rendered.settings["spark"]["master"].startswith("k8s") else []):
        secret = {volume for volume, what in volumes(pod).items() if "secret" in what}
        for mount in pod["spec"]["containers"][0]["volumeMounts"]:
            assert mount["name"] not in secret or ("subPath" not in mount and mount["readOnly"])
