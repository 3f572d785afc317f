"""``python -m ops.observability``: writes rules and dashboards into the chart. A test fails when they are stale."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from ops.observability.dashboards import DASHBOARDS, dashboard
from ops.observability.rules import rules

FILES = Path(__file__).resolve().parents[2] / "helm" / "files"
HEAD = "# Made by `python -m ops.observability`. Names in angle brackets are put in by the chart.\n"


def contents() -> dict[Path, str]:
    """What belongs into each file."""
    made = {
        FILES / "dashboards" / f"{one.name}.json": json.dumps(dashboard(one), indent=1, ensure_ascii=False) + "\n" for one in DASHBOARDS
    }
    made[FILES / "rules" / "cep.yaml"] = HEAD + yaml.safe_dump(rules(), sort_keys=False, width=2000, allow_unicode=True)
    return made


if __name__ == "__main__":
    for path, text in contents().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
