"""The settings as a table, made from the tree: ``python -m app.config.catalogue > ops/settings.md``; ``... schema`` prints the JSON schema."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.config.settings import Settings, Stream

_HEAD = """# Settings

Made from `app/config/settings.py` by `python -m app.config.catalogue`; a test fails when it is stale.

One YAML file, laid over by environment variables: `kafka.bootstrap_servers` is `CEP_KAFKA__BOOTSTRAP_SERVERS`
(values are YAML, so lists and maps can be given). Unknown keys are errors. Durations are written with their unit: `500 ms`, `5 s`, `12 h`.
A secret can be given as a file: `password_file` instead of `password`.

| setting | type | default | meaning |
|---|---|---|---|
"""


def rows() -> Iterator[tuple[str, str, str, str]]:
    """(setting, type, default, meaning) of every leaf of the tree, in its order."""
    yield from _rows(Settings, "")


def catalogue() -> str:
    """The table as Markdown."""
    lines = [f"| `{name}` | {kind} | {default} | {meaning} |" for name, kind, default, meaning in rows()]
    return _HEAD + "\n".join(lines) + "\n"


def json_schema() -> str:
    """JSON schema of the settings file, for editors and the chart."""
    return json.dumps(Settings.model_json_schema(), indent=2) + "\n"


def _rows(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for name, field in section.model_fields.items():
        inner = Stream if field.annotation == dict[str, Stream] else field.annotation
        path = f"{prefix}{name}"
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _rows(inner, f"{path}.NAME." if inner is Stream else f"{path}.")
        else:
            yield path, _kind(field), _default(field), " ".join((field.description or "").split()).replace("``", "`")


def _kind(field: FieldInfo) -> str:
    # Only durations are numbers that are written as texts.
    return "duration" if field.annotation is int and isinstance(field.default, str) else _words(field.annotation)


def _words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _words(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return _words(next(part for part in arguments if part is not type(None)))
    if origin is tuple:
        return f"list of {_words(arguments[0])}s"
    if origin is dict:
        return f"map of {_words(arguments[1])}s" if get_origin(arguments[1]) is not Literal else "map of names"
    names = {str: "text", int: "integer", float: "number", bool: "yes or no", SecretStr: "secret"}
    return names.get(annotation, "path" if getattr(annotation, "__name__", "") == "Path" else str(annotation))


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}, ""):
        return "–"
    if isinstance(value, tuple):
        return ", ".join(f"`{part}`" for part in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.stdout.write(json_schema() if sys.argv[1:] == ["schema"] else catalogue())
