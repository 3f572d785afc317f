"""The 33 features of a good chart, one by one, on the objects that it makes; the list is that of the design, by number."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.chart.chart_values import FILES, PERMUTATIONS
from tests.chart.conftest import CHART, Rendered

RECOMMENDED = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "part-of", "version", "managed-by")}


class Chart:
    """The chart rendered in several ways, each once."""

    def __init__(self, render: Callable[..., Rendered], run_helm: Callable[..., Any]) -> None:
        self.render, self.run_helm = render, run_helm
        self._known: dict[str, Rendered] = {}

    def of(self, name: str) -> Rendered:
        """With a file of `helm/ci`."""
        if name not in self._known:
            self._known[name] = self.render(PERMUTATIONS[name])
        return self._known[name]

    @property
    def all(self) -> Rendered:
        return self.of("all")

    def notes(self, values: dict[str, Any]) -> str:
        done = self.run_helm("install", values, "--dry-run=client", "--namespace", "stores")
        assert done.returncode == 0, done.stderr
        return str(done.stdout)


@pytest.fixture
def chart(render, run_helm) -> Chart:
    return Chart(render, run_helm)


def pods(rendered: Rendered) -> dict[str, dict[str, Any]]:
    """Every pod that the release makes, by name."""
    found = {"executor": rendered.executor["spec"], "driver": rendered.driver["spec"]}
    for o in rendered.objects:
        if o["kind"] == "Pod":
            found[o["metadata"]["name"]] = o["spec"]
        if o["kind"] == "Job":
            found[o["metadata"]["name"]] = o["spec"]["template"]["spec"]
        if o["kind"] == "CronJob":
            found[o["metadata"]["name"]] = o["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


def containers(rendered: Rendered) -> list[dict[str, Any]]:
    """Containers of every pod, those that run before and beside included."""
    return [c for pod in pods(rendered).values() for c in (*pod["containers"], *pod.get("initContainers", ()))]


def schema(chart: Chart) -> None:
    assert json.loads((CHART / "values.schema.json").read_text())["additionalProperties"] is False
    assert chart.run_helm("template", {"executor": {"instances": "many"}}).returncode != 0


def readme(chart: Chart) -> None:
    template, made = ((CHART / name).read_text() for name in ("README.md.gotmpl", "README.md"))
    assert "chart.valuesSection" in template
    assert "| executor.instances | int | `2` |" in made


def comments(chart: Chart) -> None:
    """`test_every_value_has_a_comment` finds those without; here, that they reach the table."""
    rows = re.findall(r"^\| (\S+) \| \w+ \| .* \| (.*) \|$", (CHART / "README.md").read_text().split("## Values")[1], re.MULTILINE)
    assert len(rows) > 150
    assert [name for name, text in rows if not text.strip()] == []


def notes(chart: Chart) -> None:
    text = chart.notes({})
    assert all(each in text for each in ("helm test shop -n stores --logs", "port-forward shop-cep-0 8081", "logs shop-cep-0 -f"))
    assert "WARNING: no queries" in text
    assert "executors of" not in chart.notes({"mode": "local"})


def helpers(chart: Chart) -> None:
    named = chart.render({"fullnameOverride": "mine"})
    assert all(o["metadata"]["name"].startswith("mine") for o in named.objects)
    long = chart.render(None, release="r" * 53)
    assert max(len(o["metadata"]["name"]) for o in long.objects) <= 52


def labels(chart: Chart) -> None:
    extra = {"shop-extra", "shop-text"}
    things = [o for o in chart.all.objects if o["metadata"]["name"] not in extra]
    assert len(things) > 20
    for o in [*things, chart.all.driver, chart.all.executor]:
        assert RECOMMENDED | {"team"} <= o["metadata"]["labels"].keys(), o


def kube_version(chart: Chart) -> None:
    assert "kubeVersion" in chart.run_helm("template", None, "--kube-version", "1.31.0").stderr


def artifact_hub(chart: Chart) -> None:
    told = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    kinds = {change["kind"] for change in yaml.safe_load(told["artifacthub.io/changes"])}
    assert kinds <= {"added", "changed", "deprecated", "removed", "fixed", "security"}
    assert all(link.keys() == {"name", "url"} for link in yaml.safe_load(told["artifacthub.io/links"]))
    assert {"name", "image"} <= yaml.safe_load(told["artifacthub.io/images"])[0].keys()
    assert told["artifacthub.io/license"] == "Apache-2.0"
    assert yaml.safe_load(told["artifacthub.io/crds"]) == []


def no_root(chart: Chart) -> None:
    assert len(pods(chart.all)) == 5
    for pod in pods(chart.all).values():
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)


def read_only(chart: Chart) -> None:
    assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in containers(chart.all))


def seccomp(chart: Chart) -> None:
    assert all(pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"} for pod in pods(chart.all).values())


def capabilities(chart: Chart) -> None:
    for each in containers(chart.all):
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert each["securityContext"]["allowPrivilegeEscalation"] is False


def tokens(chart: Chart) -> None:
    assert {name: pod["automountServiceAccountToken"] for name, pod in pods(chart.all).items() if pod["automountServiceAccountToken"]} == {
        "driver": True
    }
    assert chart.of("local").driver["spec"]["automountServiceAccountToken"] is False
    assert not any(o["automountServiceAccountToken"] for o in chart.all.objects if o["kind"] == "ServiceAccount")


def network_policy(chart: Chart) -> None:
    assert "NetworkPolicy" not in chart.of("minimal").kinds()
    driver, executor = (chart.all.one("NetworkPolicy", ending)["spec"] for ending in ("-driver", "-executor"))
    dns = {"ports": [{"protocol": protocol, "port": port} for port in (53, 5353) for protocol in ("UDP", "TCP")]}
    api = {"ports": [{"protocol": "TCP", "port": 443}], "to": [{"ipBlock": {"cidr": "10.96.0.1/32"}}]}
    kafka = {"ports": [{"protocol": "TCP", "port": 9093}], "to": [{"podSelector": {"matchLabels": {"strimzi.io/cluster": "main"}}}]}
    registry = {"ports": [{"protocol": "TCP", "port": 8081}]}
    store = {"ports": [{"protocol": "TCP", "port": 9000}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    more = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}
    own = {"to": [{"podSelector": {"matchLabels": labels_of(chart.all, part)}} for part in ("driver", "executor")]}
    assert driver["egress"] == [dns, own, api, kafka, registry, store, more]
    assert executor["egress"] == [dns, own, kafka, registry, store, more]
    tester = {"podSelector": {"matchLabels": labels_of(chart.all, "test")}}
    assert tester["podSelector"]["matchLabels"].items() <= chart.all.one("Pod", "-test")["metadata"]["labels"].items()
    assert driver["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": port} for port in (8080, 8081)], "from": [{"namespaceSelector": {}}, tester]},
        {"from": own["to"]},
    ]
    assert executor["ingress"] == [{"from": own["to"]}]
    assert driver["podSelector"]["matchLabels"].items() <= chart.all.driver["metadata"]["labels"].items()
    assert executor["podSelector"]["matchLabels"].items() <= chart.all.executor["metadata"]["labels"].items()


def labels_of(rendered: Rendered, component: str) -> dict[str, str]:
    """By which pods of a component are selected."""
    return {f"app.kubernetes.io/{k}": v for k, v in {"name": "cep", "instance": "shop", "component": component}.items()}


def disruption_budget(chart: Chart) -> None:
    budget = chart.all.one("PodDisruptionBudget", "-executor")["spec"]
    assert (budget["minAvailable"], budget["unhealthyPodEvictionPolicy"]) == (2, "AlwaysAllow"), "a number: owners are pods"
    assert budget["selector"]["matchLabels"] == labels_of(chart.all, "executor")
    assert chart.all.one("PodDisruptionBudget", "-driver")["spec"]["minAvailable"] == 1
    assert [o["metadata"]["name"] for o in chart.of("minimal").objects if o["kind"] == "PodDisruptionBudget"] == ["shop-cep-executor"]


def service_monitor(chart: Chart) -> None:
    monitor = chart.all.one("ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = [o for o in chart.all.objects if o["kind"] == "Service" and wanted <= o["metadata"]["labels"].items()]
    assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]


def pod_monitor(chart: Chart) -> None:
    rendered = chart.of("pod-monitor")
    spec = rendered.one("PodMonitor")["spec"]
    assert spec["selector"]["matchLabels"].items() <= rendered.driver["metadata"]["labels"].items()
    assert spec["podMetricsEndpoints"][0]["port"] in [port["name"] for port in rendered.driver["spec"]["containers"][0]["ports"]]
    both = {"metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}}
    assert chart.run_helm("template", both).returncode != 0


def prometheus_rule(chart: Chart) -> None:
    groups = chart.all.one("PrometheusRule")["spec"]["groups"]
    alerts = {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}
    assert len(alerts) > 20
    assert alerts["CepDown"]["expr"] == 'absent(cep_leader{namespace="stores",pod="shop-cep-0"})'
    assert alerts["CepExecutorsMissing"]["expr"].endswith("< 3")
    assert all(rule["labels"]["team"] == "loss-prevention" for rule in alerts.values())


def dashboards(chart: Chart) -> None:
    maps = [o for o in chart.all.objects if o["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    titles = {json.loads(text)["title"] for o in maps for text in o["data"].values()}
    assert titles == {"CEP / Overview", "CEP / Query", "CEP / Shedding and audits"}
    assert {o["metadata"]["annotations"]["grafana_folder"] for o in maps} == {"CEP"}
    files = {(o["metadata"]["name"], key) for o in maps for key in o["data"]}
    named = [o["spec"]["configMapRef"] for o in chart.all.objects if o["kind"] == "GrafanaDashboard"]
    assert {(ref["name"], ref["key"]) for ref in named} == files
    ids = dashboard_ids(chart.all)
    elsewhere = chart.render({"dashboards": {"enabled": True}}, "--namespace", "elsewhere")
    others = [elsewhere, chart.render({"dashboards": {"enabled": True}, "fullnameOverride": "mine"})]
    assert len(ids.union(*map(dashboard_ids, others))) == 9, "releases may bring them side by side, in one namespace or in two"
    assert max(map(len, ids)) <= 40, "Grafana takes no longer ones"


def dashboard_ids(rendered: Rendered) -> set[str]:
    """By which Grafana tells dashboards apart."""
    maps = [o for o in rendered.objects if o["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    return {json.loads(text)["uid"] for o in maps for text in o["data"].values()}


def environment(chart: Chart) -> None:
    for pod in (chart.all.driver, chart.all.executor):
        container = pod["spec"]["containers"][0]
        assert {"name": "RELEASE", "value": "shop"} in container["env"]
        assert container["envFrom"] == [{"configMapRef": {"name": "shop-env"}}]


def volumes(chart: Chart) -> None:
    for pod in (chart.all.driver, chart.all.executor):
        assert {"name": "more", "emptyDir": {}} in pod["spec"]["volumes"]
        assert {"name": "more", "mountPath": "/more"} in pod["spec"]["containers"][0]["volumeMounts"]


def more_containers(chart: Chart) -> None:
    for pod in (chart.all.driver, chart.all.executor):
        sidecar, first = pod["spec"]["initContainers"]
        assert (sidecar["name"], sidecar["restartPolicy"], sidecar["args"]) == ("proxy", "Always", ["--for=shop"])
        assert (first["name"], first["image"], "restartPolicy" in first) == ("wait", "cep:0.1.0", False)
        assert len(pod["spec"]["containers"]) == 1, "a container beside an executor would keep its pod alive"


def extra_objects(chart: Chart) -> None:
    assert chart.all.one("ConfigMap", "shop-extra")["data"] == {"who": "shop-cep"}
    assert chart.all.one("ConfigMap", "shop-text")


def existing(chart: Chart) -> None:
    token = {"internalToken": {"existingSecret": "token"}}
    own, theirs = chart.of("trial"), chart.render({**PERMUTATIONS["scram"], "checkpoint": {"pvc": {"existingClaim": "mine"}}, **token})
    assert {o["metadata"]["name"] for o in own.objects if o["kind"] == "Secret"} >= {"shop-cep-kafka", "shop-cep-registry", "shop-cep-s3"}
    assert not {"Secret", "PersistentVolumeClaim"} & theirs.kinds()
    sources = chart.all.driver["spec"]["volumes"]
    assert {"configMap": {"name": "shop-queries"}} in next(v for v in sources if v["name"] == "queries")["projected"]["sources"]


def checksums(chart: Chart) -> None:
    def annotations(values: dict[str, Any]) -> dict[str, str]:
        return chart.render(values).driver["metadata"]["annotations"]

    def with_password(text: str, more: dict[str, Any]) -> dict[str, str]:
        security = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "secret": {"password": text}}
        return annotations({"kafka": {"security": security}, **more})

    assert {"checksum/settings", "checksum/executor", "checksum/secrets"} <= annotations({}).keys()
    one, other = with_password("a", {}), with_password("b", {})
    assert one["checksum/secrets"] != other["checksum/secrets"]
    assert one["checksum/settings"] == other["checksum/settings"], "no secret is in the settings"
    assert "checksum/existing" not in one
    assert "checksum/existing" in annotations({"checksums": {"existing": True}})


def helm_test(chart: Chart) -> None:
    pod = chart.of("minimal").one("Pod", "-test")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    assert container["image"] == chart.of("minimal").driver["spec"]["containers"][0]["image"]
    assert container["args"][1] == "/opt/cep/ops/image/release_check.py"
    for url, target in zip(container["args"][3:], ("http", "control"), strict=True):
        service, port = re.match(r"http://([^.]+)\.stores\.svc\.cluster\.local:(\d+)$", url).groups()
        assert {p["port"]: p["targetPort"] for p in chart.of("minimal").one("Service", service)["spec"]["ports"]}[int(port)] == target
    closed = chart.render({"control": {"tlsSecret": "tls"}}).one("Pod", "-test")
    assert len(closed["spec"]["containers"][0]["args"]) == 4, "it has no certificate to show"


def unit_suites(chart: Chart) -> None:
    """`test_chart_checks` runs them and holds their list against the templates."""
    assert len(list((CHART / "tests").glob("*_test.yaml"))) > 20


def ci_values(chart: Chart) -> None:
    wanted = {"minimal", "all", "local", "scram", "oauth", "mutual-tls", "s3", "strimzi", "spot", "trial"}
    assert wanted <= FILES.keys()


def no_autoscaler(chart: Chart) -> None:
    for values in (
        {"autoscaling": {"enabled": True}},
        {"driver": {"autoscaling": {}}},
        {"executor": {"autoscaling": {"enabled": False}}},
        {"spark": {"conf": {"spark.dynamicAllocation.enabled": "true"}}},
    ):
        assert chart.run_helm("template", values).returncode != 0, values
    assert "HorizontalPodAutoscaler" not in chart.all.kinds()
    assert "There is no autoscaler" in (CHART / "README.md").read_text()
    assert chart.of("many").settings["spark"]["conf"]["spark.executor.instances"] == "8"


def spread(chart: Chart) -> None:
    for pod in (chart.all.driver, chart.all.executor):
        (constraint,) = pod["spec"]["topologySpreadConstraints"]
        assert constraint["labelSelector"]["matchLabels"] == {"app.kubernetes.io/instance": "shop"}


def grace(chart: Chart) -> None:
    assert chart.of("minimal").driver["spec"]["terminationGracePeriodSeconds"] == 90
    assert chart.of("minimal").settings["spark"]["stop_timeout"] == "60 s"
    assert chart.run_helm("template", {"driver": {"stopTimeoutSeconds": 90}}).returncode != 0
    assert chart.of("spot").settings["spark"]["conf"]["spark.kubernetes.executor.terminationGracePeriodSeconds"] == "110s"


def templates_in_values(chart: Chart) -> None:
    rendered = chart.render(
        {
            "kafka": {"bootstrapServers": "{{ .Release.Name }}-kafka.{{ .Release.Namespace }}:9092"},
            "schemaRegistry": {"url": "http://{{ .Release.Name }}-registry:8081"},
            "commonAnnotations": {"who": "{{ .Chart.Name }}"},
            "queries": {"inline": {"a.yaml": "name: '{{ .Release.Name }}'"}},
            "internalToken": {"existingSecret": "{{ .Release.Name }}-token"},
            "control": {"existingSecret": "{{ .Release.Name }}-control", "tlsSecret": "{{ .Release.Name }}-tls"},
        }
    )
    secrets = {volume.get("secret", {}).get("secretName") for volume in rendered.driver["spec"]["volumes"]}
    assert secrets >= {"shop-token", "shop-control", "shop-tls"}
    assert rendered.settings["kafka"]["bootstrap_servers"] == "shop-kafka.stores:9092"
    assert rendered.settings["schema_registry"]["url"] == "http://shop-registry:8081"
    assert rendered.driver["metadata"]["annotations"]["who"] == "cep"
    assert rendered.one("ConfigMap", "-queries")["data"] == {"a.yaml": "name: '{{ .Release.Name }}'"}, "never queries"


def digest(chart: Chart) -> None:
    wanted = "sha256:" + "1" * 64
    rendered = chart.render({"image": {"tag": "7", "digest": wanted}, "topics": {"provision": "job"}})
    images = {c["image"] for c in containers(rendered) if "image" in c} | {
        rendered.settings["spark"]["conf"]["spark.kubernetes.container.image"]
    }
    assert images == {f"cep@{wanted}"}


FEATURES: tuple[tuple[int, str, Callable[[Chart], None]], ...] = (
    (1, "values.schema.json", schema),
    (2, "README from a template", readme),
    (3, "a comment on every value", comments),
    (4, "NOTES.txt", notes),
    (5, "names through helpers", helpers),
    (6, "recommended labels everywhere", labels),
    (7, "kubeVersion", kube_version),
    (8, "Artifact Hub annotations", artifact_hub),
    (9, "no root", no_root),
    (10, "read-only root", read_only),
    (11, "seccomp", seccomp),
    (12, "no capabilities", capabilities),
    (13, "tokens for the driver only", tokens),
    (14, "NetworkPolicy", network_policy),
    (15, "PodDisruptionBudget", disruption_budget),
    (16, "ServiceMonitor", service_monitor),
    (17, "PodMonitor", pod_monitor),
    (18, "PrometheusRule", prometheus_rule),
    (19, "dashboards", dashboards),
    (20, "extraEnv and extraEnvFrom", environment),
    (21, "extraVolumes and extraVolumeMounts", volumes),
    (22, "initContainers and sidecars", more_containers),
    (23, "extraObjects", extra_objects),
    (24, "existing Secrets, ConfigMaps, claims", existing),
    (25, "checksums", checksums),
    (26, "helm test with our own image", helm_test),
    (27, "helm-unittest suites", unit_suites),
    (28, "ci values", ci_values),
    (29, "no autoscaler, stated", no_autoscaler),
    (30, "topologySpreadConstraints", spread),
    (31, "grace periods", grace),
    (32, "tpl in values", templates_in_values),
    (33, "digest before tag", digest),
)


def test_the_list_is_whole():
    assert [number for number, _, _ in FEATURES] == list(range(1, 34))


@pytest.mark.parametrize(("number", "name", "check"), FEATURES, ids=[f"{number}-{name}" for number, name, _ in FEATURES])
def test_feature(chart, number, name, check):
    check(chart)
