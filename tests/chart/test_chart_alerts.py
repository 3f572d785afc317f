"""Rules and alerts: sound to Prometheus, each fires when it should and not otherwise, each with a runbook; only metrics that there are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.observe.metrics import Metrics
from app.observe.table import METRICS
from ops.observability.__main__ import contents
from ops.observability.dashboards import DASHBOARDS
from ops.observability.rules import ALERTS, LATE, WINDOWS, recordings
from tests.chart.alert_cases import CASES, Case
from tests.chart.conftest import PROJECT

RUNBOOKS = PROJECT / "ops" / "runbooks"
RECORDED = {rule["record"] for rule in recordings()}


@pytest.fixture(scope="module")
def groups(render_once) -> list[dict[str, Any]]:
    """The rules as the chart renders them."""
    rendered = render_once({"prometheusRule": {"enabled": True}, "executor": {"instances": 3}})
    return rendered.one("PrometheusRule")["spec"]["groups"]


def series_of(expression: str) -> set[str]:
    """Names of metrics and recorded series in an expression; what histograms expose is the histogram."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    names = re.findall(r"\bcep[_:][a-z0-9_:]+\b(?!=)", bare)  # with "=" behind it it is a label
    return {re.sub(r"_(bucket|count|sum)$", "", name) if name.startswith("cep_") else name for name in names}


@pytest.mark.parametrize("path", contents(), ids=lambda path: path.name)
def test_what_is_in_the_chart_is_what_the_tables_make(path):
    assert path.read_text(encoding="utf-8") == contents()[path], "run python -m ops.observability"


def test_rules_name_only_metrics_that_there_are(groups):
    known = {metric.name for metric in METRICS} | RECORDED
    named = set().union(*(series_of(rule["expr"]) for group in groups for rule in group["rules"]))
    assert len(named) > 20
    assert named <= known


def test_dashboards_name_only_metrics_that_there_are_without_the_rules():
    known = {metric.name for metric in METRICS}
    named = set().union(*(series_of(expr) for board in DASHBOARDS for panel in board.panels for expr, _ in panel.series))
    assert len(named) > 35
    assert named <= known


def test_dashboards_ask_only_for_labels_that_their_metrics_have():
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for board in DASHBOARDS:
        for panel in board.panels:
            for expr, legend in panel.series:
                of_all = set().union(*(labels.get(name, {"query"}) for name in series_of(expr))) | {"le"}
                asked = set(re.findall(r"\{\{(\w+)\}\}", legend)) | set(re.findall(r"(\w+)=~", expr)) - {"namespace", "pod"}
                assert asked <= of_all, (board.name, panel.title)


def test_panels_lie_beside_each_other():
    for path, text in contents().items():
        if path.suffix != ".json":
            continue
        places = [panel["gridPos"] for panel in yaml.safe_load(text)["panels"]]
        cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
        assert len(cells) == len(set(cells))
        assert max(x for x, _ in cells) < 24


def test_every_expression_is_promql(promtool, groups, tmp_path):
    boards = [
        {"record": f"panel:{board.name}:{number}", "expr": re.sub(r"\$__rate_interval", "5m", expr)}
        for board in DASHBOARDS
        for number, (expr, _) in enumerate(series for panel in board.panels for series in panel.series)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [*groups, {"name": "dashboards", "rules": boards}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{sum(len(g['rules']) for g in groups) + len(boards)} rules found" in done.stdout


def test_every_alert_has_a_runbook_and_every_such_page_an_alert():
    assert {path.stem for path in RUNBOOKS.glob("Cep*.md")} == {alert.name for alert in ALERTS}
    for alert in ALERTS:
        text = (RUNBOOKS / f"{alert.name}.md").read_text(encoding="utf-8")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Meaning", "Impact", "Diagnosis", "Mitigation"], alert.name


def test_runbooks_name_only_metrics_and_pages_that_there_are():
    known = {metric.name for metric in METRICS}
    for path in RUNBOOKS.glob("Cep*.md"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"`(cep_[a-z_]+)", text)) <= known, path.name
        for page in re.findall(r"`([a-z-]+\.md)`", text):
            assert (RUNBOOKS / page).exists(), (path.name, page)
        for other in re.findall(r"\b(Cep[A-Z]\w+)", text):
            assert (RUNBOOKS / f"{other}.md").exists(), (path.name, other)


def test_every_alert_has_severity_texts_and_a_link(groups):
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert {rule["alert"] for rule in alerts} == {alert.name for alert in ALERTS} == {case.partition(",")[0] for case in CASES}
    for rule in alerts:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert (PROJECT / rule["annotations"]["runbook_url"]).exists()
        assert "<" not in re.sub(r" <=? ", "", rule["expr"]), "every name in angle brackets was put in"


def test_the_share_that_is_late_is_kept_over_every_window(groups):
    assert {f"{LATE}{window}" for window in WINDOWS} <= {rule.get("record") for g in groups for rule in g["rules"]}


def played(name: str, case: Case, series: dict[str, str], *, fires: bool) -> dict[str, Any]:
    """A test of promtool's: whether the alert is among those that fire."""
    return {
        "name": f"{name} {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count by (alertname) (ALERTS{{alertname="{name}",alertstate="firing"}})',
                "eval_time": f"{case.minutes}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}] if fires else [],
            }
        ],
    }


@pytest.mark.parametrize("which", CASES)
def test_an_alert_fires_when_it_should_and_not_otherwise(promtool, groups, tmp_path: Path, which: str):
    case, name = CASES[which], which.partition(",")[0]
    bare = [{"name": g["name"], "rules": [r for r in g["rules"] if r.get("alert") in (None, name)]} for g in groups]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": bare}), encoding="utf-8")
    tests = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [played(name, case, case.fires, fires=True), played(name, case, case.quiet, fires=False)],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "tests.yaml")], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("which", ["CepLatencySLOBurnFast", "CepLatencySLOBurnSlow"])
def test_alerts_on_recorded_series_go_by_whatever_selector_the_values_say(promtool, render_once, tmp_path: Path, which: str):
    """By a scrape's job, which sums no longer have: what was recorded is found all the same, and series of another job wake nobody."""
    groups = render_once({"prometheusRule": {"enabled": True, "selector": 'job="cep"'}}).one("PrometheusRule")["spec"]["groups"]
    bare = [{"name": g["name"], "rules": [r for r in g["rules"] if r.get("alert") in (None, which)]} for g in groups]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": bare}), encoding="utf-8")

    def scraped(job: str) -> dict[str, str]:
        return {name.replace("{", f'{{job="{job}",'): samples for name, samples in CASES[which].fires.items()}

    tests = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [played(which, CASES[which], scraped(job), fires=job == "cep") for job in ("cep", "other")],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "tests.yaml")], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_ask_recorded_series_by_the_release_alone(groups):
    asked = re.findall(r"\bcep:\w[\w:]*\{([^}]*)\}", " ".join(rule["expr"] for group in groups for rule in group["rules"]))
    assert set(asked) == {'cep_release="stores/shop-cep"'}


def test_the_share_that_is_late_is_of_all_composite_events(promtool, groups, tmp_path: Path):
    """20 of 100 came after their bound."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "r", "rules": groups[0]["rules"]}]}), encoding="utf-8")
    case = played("x", CASES["CepLatencySLOBurnFast"], CASES["CepLatencySLOBurnFast"].fires, fires=True)
    labels = '{cep_release="stores/shop-cep", namespace="stores", pod="shop-cep-0", query="q"}'
    case["promql_expr_test"] = [
        {
            "expr": f"round({LATE}1h, 0.001)",
            "eval_time": "90m",
            "exp_samples": [{"labels": labels, "value": 0.2}],
        }
    ]
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "tests.yaml")], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def exposition() -> str:
    """What a scrape gets when every metric has moved."""
    metrics = Metrics()
    for metric in METRICS:
        labels = dict.fromkeys(metric.labels, "x")
        if metric.kind == "info":
            metrics.inform(metric.name, **labels)
        else:
            {"counter": metrics.add, "gauge": metrics.set, "histogram": metrics.observe}[metric.kind](metric.name, 1, **labels)
    return metrics.text()[0].decode()


def test_promtool_is_content_with_the_metrics(promtool, exposition):
    done = subprocess.run([promtool, "check", "metrics"], input=exposition, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
