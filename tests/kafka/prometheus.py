"""A real Prometheus that scrapes an application and keeps the chart's rules, as a cluster's would."""

from __future__ import annotations

import json
import math
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.local.child import Child
from app.local.ports import free_ports
from tests.chart.conftest import run_over_chart
from tests.tools import program

NAMESPACE, POD = "stores", "shop-cep-0"
"""Of the release that `run_over_chart` renders: the rules' selectors name them."""
INTERVAL = "1s"
RATE_INTERVAL = "20s"
"""What Grafana would put for `$__rate_interval`: at least four scrapes."""
VARIABLES = {"$__rate_interval": RATE_INTERVAL, "$namespace": ".*", "$pod": ".*", "$query": ".*"}
"""Of the dashboards, with everything chosen."""
START_S = 60.0


@dataclass(frozen=True)
class Prometheus:
    """A running one.

    Attributes:
        since_s: when it began to scrape, by the clock.
    """

    url: str
    since_s: float

    def ask(self, path: str, **parameters: object) -> Any:
        """The data of an answer of its API."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
            return json.load(answer)["data"]

    def shown(self, expression: str) -> list[float]:
        """All that a panel with this expression would have drawn since the beginning."""
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        found = self.ask("query_range", query=expression, start=self.since_s, end=time.time(), step=2)["result"]
        return [number for series in found for _, text in series["values"] if math.isfinite(number := float(text))]

    def faults(self) -> dict[str, str]:
        """Rules that could not be evaluated, and why."""
        rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
        assert rules
        return {rule["name"]: rule["lastError"] for rule in rules if rule["health"] == "err"}


def rules_of_the_chart(folder: Path, helm: str) -> dict[str, Any]:
    """As the chart renders them; evaluated more often, since an hour is too long for a test."""
    done = run_over_chart(helm, folder, "template", {"prometheusRule": {"enabled": True}}, ("--namespace", NAMESPACE))
    assert done.returncode == 0, done.stderr
    (found,) = [one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "PrometheusRule"]
    return {"groups": [{**group, "interval": INTERVAL} for group in found["spec"]["groups"]]}


@contextmanager
def scraping(folder: Path, port: int) -> Iterator[Prometheus | None]:
    """Scrapes the application at a port while the block runs, and answers; None where Prometheus or Helm are not there."""
    prometheus, helm = program("prometheus"), program("helm")
    if prometheus is None or helm is None:
        yield None
        return
    folder.mkdir()
    (own,) = free_ports(1)
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules_of_the_chart(folder, helm)), encoding="utf-8")
    target = {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": NAMESPACE, "pod": POD}}
    config = {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "cep", "static_configs": [target]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    url = f"http://127.0.0.1:{own}"
    places = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{own}"]
    child = Child("Prometheus", [prometheus, *places], folder / "prometheus.log")
    try:
        child.wait_until(lambda: _is_ready(url), START_S)
        yield Prometheus(url, time.time())
    finally:
        child.terminate()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
