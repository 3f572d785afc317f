"""What the chart makes of values: by `helm template`, checked as objects."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.settings import load_settings
from tests.chart.chart_values import PERMUTATIONS

RECOMMENDED = ("name", "instance", "component", "part-of", "version", "managed-by")
NAMES = {"name", "namespace", "serviceAccountName", "serviceName", "claimName", "secretName", "priorityClassName", "storageClassName"}


def pods(rendered: Any) -> list[dict[str, Any]]:
    return [rendered.driver] + ([rendered.executor] if rendered.settings["spark"]["master"].startswith("k8s") else [])


@pytest.fixture(params=PERMUTATIONS)
def permutation(request):
    return copy.deepcopy(PERMUTATIONS[request.param])


def test_chart_passes_the_strict_lint(run_helm, permutation):
    done = run_helm("lint", permutation, "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


def test_settings_file_is_one_that_the_application_accepts(render, permutation, tmp_path):
    settings = render(permutation).settings
    security = settings["kafka"]["security"]
    assert "for-trials-only" not in yaml.safe_dump(settings), "secrets are named by file"
    for section in (security, security.get("oauth", {}), settings["schema_registry"]):
        for name in ("password_file", "client_secret_file"):
            if name in section:  # mounted in the pod; here any file will do
                section[name] = str(tmp_path / "password")
    if "task_token_file" in settings["http"]:
        settings["http"]["task_token_file"] = str(tmp_path / "token")
    (tmp_path / "password").write_text("s", encoding="utf-8")
    (tmp_path / "token").write_text("of 16 characters", encoding="utf-8")
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    accepted = load_settings(tmp_path / "settings.yaml", {})
    assert accepted.queries.paths == (tmp_path / "queries",)


def test_every_object_and_pod_has_the_recommended_labels(render, permutation):
    rendered = render(permutation)
    theirs = [re.search(r"name: (.*)", o)[1] if isinstance(o, str) else o["metadata"]["name"] for o in permutation.get("extraObjects", ())]
    ours = [o for o in rendered.objects if o["metadata"]["name"] not in [name.replace("{{ .Release.Name }}", "shop") for name in theirs]]
    for thing in (*ours, *pods(rendered)):
        labels = thing["metadata"]["labels"]
        assert {f"app.kubernetes.io/{name}" for name in RECOMMENDED} <= labels.keys(), thing


def test_every_pod_satisfies_the_restricted_profile(render, permutation):
    for pod in pods(render(permutation)):
        security = pod["spec"]["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"], security["seccompProfile"]) == (True, 10001, {"type": "RuntimeDefault"})
        for container in pod["spec"]["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_only_the_driver_in_client_mode_holds_a_token(render):
    client = render()
    assert client.driver["spec"]["automountServiceAccountToken"] is True
    assert client.executor["spec"]["automountServiceAccountToken"] is False
    assert render({"mode": "local"}).driver["spec"]["automountServiceAccountToken"] is False


def test_driver_and_executors_see_secrets_and_checkpoint_at_the_same_paths(render):
    rendered = render(PERMUTATIONS["scram"])
    seen = [{m["name"]: m["mountPath"] for m in pod["spec"]["containers"][0]["volumeMounts"]} for pod in pods(rendered)]
    for volume in ("kafka-secret", "registry-secret", "checkpoint", "tmp", "spark-local-dir-1"):
        assert seen[0][volume] == seen[1][volume]
    assert rendered.settings["kafka"]["security"]["password_file"] == f"{seen[0]['kafka-secret']}/password"
    assert rendered.settings["schema_registry"]["password_file"] == f"{seen[0]['registry-secret']}/secret-word"
    assert rendered.settings["schema_registry"]["ca_file"] == f"{seen[0]['registry-secret']}/ca.crt"
    assert rendered.settings["checkpoint"]["path"].startswith(seen[0]["checkpoint"] + "/")


def test_a_registry_may_have_a_certificate_and_no_password(render):
    registry = {"url": "https://registry:8081", "auth": {"existingSecret": "registry-authority", "caKey": "ca.crt"}}
    told = render({"schemaRegistry": registry}).settings["schema_registry"]
    assert told == {"url": "https://registry:8081", "ca_file": "/etc/cep/registry/ca.crt"}


def test_a_token_endpoint_may_have_an_authority_of_its_own(render):
    security = render(PERMUTATIONS["oauth"]).settings["kafka"]["security"]
    assert security["ca_file"] == "/etc/cep/kafka/ca.crt"
    assert security["oauth"]["ca_file"] == "/etc/cep/kafka/provider.crt"
    assert security["oauth"]["client_secret_file"] == "/etc/cep/kafka/client-secret"


def test_the_driver_may_make_topics_where_a_job_may(render):
    assert render({"topics": {"provision": "job"}}).settings["topics"] == {"create_outputs": True}
    assert "topics" not in render().settings
    said = {"topics": {"provision": "job"}, "settings": {"topics": {"create_outputs": False, "partitions": 8}}}
    assert render(said).settings["topics"] == {"create_outputs": False, "partitions": 8}


def test_executors_find_the_driver_by_its_stable_name_before_it_is_ready(render):
    rendered = render()
    conf, service, driver = rendered.settings["spark"]["conf"], rendered.one("Service", "-driver"), rendered.one("StatefulSet")
    assert conf["spark.kubernetes.driver.pod.name"] == driver["metadata"]["name"] + "-0"
    host = f"{driver['metadata']['name']}-0.{service['metadata']['name']}.stores.svc.cluster.local"
    assert (conf["spark.driver.host"], rendered.settings["http"]["advertised_host"]) == (host, host)
    assert driver["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= rendered.driver["metadata"]["labels"].items()
    ports = {p["name"]: p["containerPort"] for p in rendered.driver["spec"]["containers"][0]["ports"]}
    assert ports == {
        "http": 8080,
        "control": 8081,
        "driver": int(conf["spark.driver.port"]),
        "blocks": int(conf["spark.driver.blockManager.port"]),
    }
    assert {p["targetPort"] for p in service["spec"]["ports"]} == set(ports)


def test_driver_runs_the_application_with_the_mounted_settings(render):
    container = render().driver["spec"]["containers"][0]
    assert container["args"] == ["python", "-m", "app", "run", "--settings", "/etc/cep/settings.yaml"]
    mounts = {m["mountPath"]: m.get("subPath") for m in container["volumeMounts"]}
    assert mounts["/etc/cep/settings.yaml"] == "settings.yaml"
    assert mounts["/etc/cep/queries"] is None, "a subPath mount would never change"
    probes = {k: container[k]["httpGet"] for k in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {k: p["path"] for k, p in probes.items()} == {
        "startupProbe": "/startupz",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    assert {p["port"] for p in probes.values()} == {"http"}


def test_changed_queries_restart_the_driver_only_where_it_does_not_watch_them(render):
    def annotations(text: str, settings: dict) -> dict:
        values = {"queries": {"inline": {"q.yaml": text}}, "settings": settings}
        return render(values).driver["metadata"]["annotations"]

    assert annotations("name: a", {}) == annotations("name: b", {})
    off = {"queries": {"reload": {"enabled": False}}}
    assert annotations("name: a", off) != annotations("name: b", off)
    assert annotations("name: a", {}) != annotations("name: a", {"watchdog": {"enabled": False}})


def test_the_driver_may_do_what_spark_does_and_nothing_else(render):
    role = render().one("Role")
    assert [(r["resources"], r["verbs"]) for r in role["rules"]] == [
        (["pods"], ["get", "list", "watch", "create", "delete", "deletecollection"]),
        (["persistentvolumeclaims"], ["list", "deletecollection"]),
    ]


def test_local_mode_is_the_driver_alone(render):
    rendered = render({"mode": "local", "driver": {"localCores": 3}})
    assert not {"Role", "RoleBinding"} & rendered.kinds()
    assert [o["metadata"]["name"] for o in rendered.objects if o["kind"] == "ServiceAccount"] == ["shop-cep-driver"]
    assert rendered.settings["spark"]["master"] == "local[3]"
    assert not [name for name in rendered.settings["spark"]["conf"] if "kubernetes" in name]
    assert [p["name"] for p in rendered.one("Service", "-driver")["spec"]["ports"]] == ["http", "control"]


def test_query_texts_arrive_unchanged_although_they_hold_braces(render):
    text = 'name: a\npattern: "SEQ(A a)"\nemit: {where: "{{ .Values.mode }}"}\n# two blanks at the end:  \n'
    assert render({"queries": {"inline": {"a.yaml": text}}}).one("ConfigMap", "-queries")["data"] == {"a.yaml": text}


@pytest.mark.parametrize(
    ("models", "volume"),
    [
        ({"existingConfigMap": "m"}, {"configMap": {"name": "m"}}),
        ({"existingClaim": "c"}, {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}),
    ],
)
def test_models_are_mounted_into_the_driver_and_named_in_its_settings(render, models, volume):
    rendered = render({"queries": {"models": models}})
    assert rendered.settings["queries"] == {"paths": ["queries"], "models": "models"}
    pod = rendered.driver["spec"]
    assert {"name": "models", **volume} in pod["volumes"]
    assert {"name": "models", "mountPath": "/etc/cep/models", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    assert "models" not in render({}).settings["queries"]


def test_queries_of_existing_configmaps_lie_beside_those_of_the_values(render):
    rendered = render({"queries": {"inline": {"a.yaml": "name: a"}, "existingConfigMaps": ["team-one", "team-two"]}})
    volume = next(v for v in rendered.driver["spec"]["volumes"] if v["name"] == "queries")
    assert [s["configMap"]["name"] for s in volume["projected"]["sources"]] == ["shop-cep-queries", "team-one", "team-two"]


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"logging": {"level": "DEBUG"}}},
        {"executor": {"podLabels": {"a": "b"}}},
    ],
)
def test_what_only_a_restart_picks_up_changes_the_pod(render, change):
    before = render({"queries": {"inline": {"a.yaml": "name: a"}}}).driver["metadata"]["annotations"]
    assert render({"queries": {"inline": {"a.yaml": "name: a"}}, **change}).driver["metadata"]["annotations"] != before


def test_an_existing_claim_replaces_ours_and_ours_outlives_the_release(render):
    rendered = render({"checkpoint": {"pvc": {"existingClaim": "mine"}}})
    assert "PersistentVolumeClaim" not in rendered.kinds()
    assert {"claimName": "mine"} in [v.get("persistentVolumeClaim") for v in rendered.driver["spec"]["volumes"]]
    assert render().one("PersistentVolumeClaim")["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def environment(pod):
    return {variable["name"]: variable for variable in pod["spec"]["containers"][0].get("env", [])}


def test_with_a_checkpoint_in_a_bucket_there_is_no_claim(render):
    rendered = render(PERMUTATIONS["s3"])
    assert rendered.settings["checkpoint"] == {"path": "s3a://states/cep", "s3": {"endpoint": "http://minio:9000", "region": "eu-1"}}
    assert "PersistentVolumeClaim" not in rendered.kinds()
    for pod in pods(rendered):
        assert "checkpoint" not in [volume["name"] for volume in pod["spec"]["volumes"]]
        assert "checkpoint" not in [mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]


def test_driver_and_executors_get_the_buckets_credentials_from_the_secret(render):
    rendered = render(PERMUTATIONS["s3"])
    assert len(pods(rendered)) == 2
    for pod in pods(rendered):
        for name, key in (("AWS_ACCESS_KEY_ID", "accessKeyId"), ("AWS_SECRET_ACCESS_KEY", "secretAccessKey")):
            assert environment(pod)[name]["valueFrom"]["secretKeyRef"] == {"name": "bucket-user", "key": key}


def test_without_a_secret_the_pods_roles_open_the_bucket(render):
    rendered = render(PERMUTATIONS["s3-by-role"])
    assert rendered.settings["checkpoint"] == {"path": "s3a://states/cep"}
    assert not any(name.startswith("AWS_") for pod in pods(rendered) for name in environment(pod))


def test_more_environment_of_executors_stands_beside_the_credentials(render):
    more = {"executor": {"extraEnv": [{"name": "MORE", "value": "x"}]}}
    assert set(environment(render({**PERMUTATIONS["s3"], **more}).executor)) == {"MORE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert set(environment(render(more).executor)) == {"MORE"}


def test_a_digest_beats_the_tag_in_driver_and_executors(render):
    digest = "sha256:" + "0" * 64
    rendered = render({"image": {"registry": "registry.example", "tag": "2", "digest": digest}})
    image = f"registry.example/cep@{digest}"
    assert rendered.driver["spec"]["containers"][0]["image"] == image
    assert rendered.settings["spark"]["conf"]["spark.kubernetes.container.image"] == image


def test_names_of_a_long_release_stay_within_a_label(render):
    rendered = render(release="r" + "x" * 52)
    names = [o["metadata"]["name"] for o in rendered.objects]
    assert max(len(name) for name in names) <= 63 - len("-0123456789"), "the controller's revision hash is put behind it"
    assert len(set(zip([o["kind"] for o in rendered.objects], names, strict=True))) == len(names)


@pytest.mark.parametrize("name", ["no", "on", "2025"])
def test_a_release_and_its_namespace_may_be_named_as_yaml_names_something_else(render, name):
    """`1e3` is a number to Go's reader alone: the suites of helm-unittest have it."""
    rendered = render(copy.deepcopy(PERMUTATIONS["all"]), "--namespace", name, release=name)
    for thing in (*rendered.objects, *pods(rendered)):
        for path, value in leaves(thing):
            if path[-1] in NAMES or set(path) & {"labels", "matchLabels", "annotations", "matchNames"}:
                assert isinstance(value, str), (thing["kind"], path, value)
    assert {value for value in rendered.settings["spark"]["conf"].values() if not isinstance(value, str)} == set()
    assert rendered.driver["metadata"]["labels"]["app.kubernetes.io/instance"] == name
    assert rendered.one("RoleBinding")["subjects"][0]["namespace"] == name
    assert all(o["metadata"]["name"][0].isalpha() for o in rendered.objects if o["kind"] == "Service"), "Kubernetes wants a letter there"


def leaves(tree: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Values of a tree that are no trees, with the keys that lead to them."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, *path, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value, *path)
    else:
        yield path, tree


def test_settings_and_spark_conf_of_the_user_win(render):
    settings = render(
        {"settings": {"watchdog": {"enabled": False}}, "spark": {"conf": {"spark.driver.memory": "3g", "spark.x": "1"}}}
    ).settings
    assert settings["watchdog"] == {"enabled": False}
    assert (settings["spark"]["conf"]["spark.driver.memory"], settings["spark"]["conf"]["spark.x"]) == ("3g", "1")


def test_placement_and_extras_reach_driver_and_executors(render):
    extra = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "cep", "operator": "Exists"}],
        "priorityClassName": "high",
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "podLabels": {"team": "loss-prevention"},
        "podAnnotations": {"note": "one"},
    }
    for pod in pods(render({"driver": extra, "executor": extra})):
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        assert {k: spec[k] for k in ("nodeSelector", "tolerations", "priorityClassName")} == {
            k: extra[k] for k in ("nodeSelector", "tolerations", "priorityClassName")
        }
        assert extra["extraEnv"][0] in container["env"]
        assert extra["extraVolumeMounts"][0] in container["volumeMounts"]
        assert extra["extraVolumes"][0] in spec["volumes"]
        assert pod["metadata"]["labels"]["team"] == "loss-prevention"
        assert pod["metadata"]["annotations"]["note"] == "one"


def test_notes_tell_where_to_look_and_warn_when_there_is_no_query(run_helm):
    notes = run_helm("install", None, "--dry-run=client", "--namespace", "stores").stdout
    assert "kubectl -n stores logs shop-cep-0 -f" in notes
    assert "WARNING: no queries" in notes
    safe = {"queries": {"existingConfigMaps": ["q"]}, "streams": {"retail": {"topics": ["r"]}}, "kafka": {"security": {"protocol": "SSL"}}}
    quiet = run_helm("install", safe, "--dry-run=client")
    assert quiet.returncode == 0, quiet.stderr
    assert "WARNING" not in quiet.stdout


def test_shipped_files_are_in_the_place_that_the_image_builds_from():
    ignored = (Path(__file__).parents[2] / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} >= {"app", "shedding", "schemas", "queries", "requirements.lock"}


def files_named(tree: Any) -> set[str]:
    """Paths below /etc/cep that settings name."""
    if isinstance(tree, dict):
        return set().union(*map(files_named, tree.values())) if tree else set()
    if isinstance(tree, list):
        return set().union(*map(files_named, tree)) if tree else set()
    return {tree} if isinstance(tree, str) and tree.startswith("/etc/cep/") else set()


@pytest.mark.parametrize("name", ["all", "trial", "scram", "oauth"])
def test_every_file_that_settings_name_is_mounted_where_they_are_read(render, name):
    """A job that has the settings of another pod ends at its start."""
    more = {"control": {"existingSecret": "people", "tlsSecret": "tls"}, "topics": {"provision": "job"}, "reconcile": {"enabled": True}}
    rendered = render({**PERMUTATIONS[name], **more})
    pods = {
        "-settings": rendered.driver["spec"],
        "-topics": rendered.one("Job")["spec"]["template"]["spec"],
        "-reconcile": rendered.one("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"],
    }
    for ending, pod in pods.items():
        settings = yaml.safe_load(rendered.one("ConfigMap", ending)["data"]["settings.yaml"])
        mounts = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
        for path in files_named(settings):
            assert any(path == mount or path.startswith(f"{mount}/") for mount in mounts), (ending, path)
    assert len(files_named(rendered.settings)) >= 4, "the control port's, the token, and Kafka's"


def test_volumes_of_every_pod_are_there_and_its_hooks_secrets_come_with_it(render):
    rendered = render(PERMUTATIONS["trial"])
    job = rendered.one("Job")["spec"]["template"]["spec"]
    hooks = {
        (o["kind"], o["metadata"]["name"]): int(o["metadata"]["annotations"]["helm.sh/hook-weight"])
        for o in rendered.objects
        if "helm.sh/hook-weight" in o["metadata"].get("annotations", {})
    }
    asked = {("Secret", v["secret"]["secretName"]) for v in job["volumes"] if "secret" in v}
    asked |= {("ConfigMap", v["configMap"]["name"]) for v in job["volumes"] if "configMap" in v}
    assert len(asked) == 3
    assert all(hooks[each] < hooks["Job", "shop-cep-topics"] for each in asked)
