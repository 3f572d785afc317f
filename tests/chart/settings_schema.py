"""The part of the chart's values.schema.json that is made from the application's settings. ``python -m tests.chart.settings_schema`` rewrites it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from app.config.settings import Settings

CHART = Path(__file__).resolve().parents[2] / "helm"
SCHEMA = CHART / "values.schema.json"

CHART_DECIDES = {
    "Checkpoint": ("path", "s3"),
    "Http": ("host", "port", "advertised_host", "task_token_file"),
    "Control": ("port", "token_file", "read_with_token", "certificate_file", "key_file"),
    "Spark": ("master", "ingress_tasks", "buckets", "conf", "stop_timeout"),
    "Settings": ("application", "streams"),
    "Kafka": ("bootstrap_servers", "client_options"),
    "SchemaRegistry": ("url",),
}
"""Settings that have values of their own in the chart: given twice they would contradict each other."""


def settings_definitions() -> dict[str, Any]:
    """The JSON schemas of the settings' sections, without secrets (a ConfigMap is no place for them) and what the chart decides."""
    whole = Settings.model_json_schema(by_alias=True)
    sections: dict[str, Any] = {**whole.pop("$defs"), "Settings": whole}
    for name, section in sections.items():
        properties = section.get("properties", {})
        secret = [
            key
            for key, value in properties.items()
            if "password" in json.dumps(value.get("anyOf", value)) and "writeOnly" in json.dumps(value)
        ]
        for key in (*secret, *CHART_DECIDES.get(name, ())):
            properties.pop(key, None)
        for value in properties.values():
            if isinstance(value.get("default"), dict):
                del value["default"]  # a whole section's, said once more there
    return sections


def main() -> int:
    """Writes the definitions into the chart's schema."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["$defs"] = settings_definitions()
    SCHEMA.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
