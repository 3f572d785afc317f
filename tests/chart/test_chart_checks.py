"""What other people's programs say of chart, manifests and image: Helm 3 and 4, helm-unittest, kubeconform, kube-score, hadolint, helm-docs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ops.tools.crds import of_definition
from ops.tools.pins import OWN_SCHEMAS, pins, tools_folder
from tests.chart.chart_values import FILES
from tests.chart.conftest import CHART, PROJECT, documents, tool

HELMS = ("helm", "helm3")
IGNORED = {
    "container-image-pull-policy": "IfNotPresent is right for tags that are never written twice, and a value for others",
    "container-resources": "the CPU has no limit: throttled, a batch would miss its latency bound; users' own sidecars bring theirs",
    "container-ephemeral-storage-request-and-limit": "what is written lies in emptyDirs with a size limit",
    "pod-networkpolicy": "off by default: whose addresses it would have to name, only the cluster knows; jobs of the release have none",
    "networkpolicy-targets-pod": "executors are pods that the driver makes",
}
"""Checks of kube-score that are left out, and why."""


def run(*argv: str, folder: Path = PROJECT, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=240, cwd=folder, input=text)


def rendered(program: str, file: Path, *more: str) -> str:
    done = run(tool(program), "template", "shop", str(CHART), "-n", "stores", "-f", str(file), *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> dict[tuple[str, str], Any]:
    return {(o["kind"], o["metadata"]["name"]): o for o in documents(text)}


@pytest.mark.parametrize("program", HELMS)
@pytest.mark.parametrize("name", FILES)
def test_the_strict_lint_is_content(program, name):
    done = run(tool(program), "lint", "--strict", str(CHART), "-f", str(FILES[name]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize("name", FILES)
def test_helm_3_and_4_make_the_same_objects(name):
    """So what other tests say of one holds for both."""
    old, new = (objects(rendered(program, FILES[name])) for program in HELMS)
    for each in (old, new):
        each.get(("Secret", "shop-cep-internal"), {}).pop("data", None)  # made anew where there is no cluster to ask
    assert old == new


@pytest.mark.parametrize("version", pins().kubernetes)
def test_kubernetes_would_take_every_object(tmp_path, version):
    """Of all values in one run: reading the schemas is most of it."""
    schemas = tools_folder() / "schemas"
    conform = tool("kubeconform")
    if not (schemas / "done").exists():
        pytest.skip("no schemas: python -m ops.tools installs them")
    locations = [
        f"{schemas}/kubernetes/v{version}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
        *(f"{folder}/{{{{.Group}}}}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json" for folder in (schemas / "crd", OWN_SCHEMAS)),
    ]
    count = 0
    for name, values in FILES.items():
        text = rendered("helm", values, "--kube-version", version)
        (tmp_path / f"{name}.yaml").write_text(text)
        there = objects(text)
        pods = [made for (kind, named), made in there.items() if kind == "ConfigMap" and named.endswith("-executor")]
        for pod in pods:
            (tmp_path / f"{name}-executor.yaml").write_text(executor_pod(pod))
        count += len(there) + len(pods)
    argv = [conform, "-strict", "-output", "json", "-kubernetes-version", version, "-summary"]
    done = run(*argv, *(part for place in locations for part in ("-schema-location", place)), str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["summary"]["valid"] == count, "none was passed over"


def executor_pod(template: dict[str, Any]) -> str:
    """The executors' template with what Spark puts in."""
    pod = yaml.safe_load(template["data"]["executor.yaml"])
    pod["metadata"]["name"] = "executor-1"
    pod["spec"]["containers"][0]["image"] = "cep:test"
    return yaml.safe_dump(pod)


@pytest.mark.parametrize("name", ["minimal", "all", "local", "trial"])
def test_kube_score_finds_nothing_that_is_not_justified(name):
    done = run(tool("kube-score"), "score", "-o", "json", "-", text=rendered("helm", FILES[name]))
    found = {
        check["check"]["id"]: [comment["summary"] for comment in check["comments"] or ()]
        for each in json.loads(done.stdout)
        for check in each["checks"]
        if not check["skipped"] and check["grade"] <= 5 and check["check"]["id"] not in IGNORED
    }
    assert found == {}, done.stdout[-2000:]


def test_hadolint_finds_nothing_in_the_dockerfile():
    done = run(tool("hadolint"), "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_readme_is_what_helm_docs_makes_of_the_values(tmp_path):
    program = tool("helm-docs")
    shutil.copytree(CHART, tmp_path / "helm")
    (tmp_path / "helm" / "README.md").unlink()
    done = run(program, "-c", ".", "--sort-values-order", "file", folder=tmp_path / "helm")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "helm" / "README.md").read_text() == (CHART / "README.md").read_text(), (
        "run helm-docs -c helm --sort-values-order file"
    )


def test_the_suites_of_helm_unittest_pass():
    done = run(tool("helm-unittest"), "--strict", str(CHART))
    assert done.returncode == 0, done.stdout[-4000:]
    suites = int(re.search(r"Test Suites:\s+(\d+) passed", done.stdout)[1])
    assert suites == len(list((CHART / "tests").glob("*_test.yaml"))) > 20


def test_every_template_has_a_suite():
    named = {t for path in (CHART / "tests").glob("*_test.yaml") for t in yaml.safe_load(path.read_text())["templates"]}
    there = {str(p.relative_to(CHART)) for p in (CHART / "templates").rglob("*") if p.is_file() and not p.name.startswith("_")}
    assert there == named


def test_packaged_it_has_neither_tests_nor_values_of_ours(tmp_path):
    done = run(tool("helm"), "package", str(CHART), "-d", str(tmp_path))
    assert done.returncode == 0, done.stderr
    shutil.unpack_archive(next(tmp_path.glob("*.tgz")), tmp_path / "out", filter="data")
    names = {str(p.relative_to(tmp_path / "out" / "cep")) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert not [name for name in names if name.startswith(("ci/", "tests/"))]
    assert {"README.md", "values.schema.json", "files/rules/cep.yaml", "templates/tests/test-release.yaml"} <= names


DEFINITION = """
spec:
  group: g
  names: {kind: Kind}
  versions:
    - name: v1
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {port: {x-kubernetes-int-or-string: true}, how: {enum: [=, "!="]}}}
"""


def test_schemas_of_definitions_refuse_what_they_do_not_know():
    ((name, schema),) = of_definition(DEFINITION)
    assert name == "g/kind_v1.json"
    assert schema["properties"]["spec"]["additionalProperties"] is False
    assert schema["properties"]["spec"]["properties"]["how"] == {"enum": ["=", "!="]}
