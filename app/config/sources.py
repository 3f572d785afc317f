"""Where settings come from: a YAML text with the place of every key, and environment variables; both become one tree of plain values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr

from app.errors import ConfigurationError, Finding, Location

PREFIX = "CEP_"
NESTING = "__"
Path = tuple[str | int, ...]
_SECRET_VALUE = re.compile(r"((?:password|secret|token|jaas|access[._-]key)[\w.-]*[\"']?\s*[:=]\s*).+", re.IGNORECASE)
"""Findings show the line they are about; secrets must not be seen there."""
_USER_IN_ADDRESS = re.compile(r"(//)[^/@\s\"']+@")


@dataclass(frozen=True, slots=True)
class Sourced:
    """A tree of plain values, and where each of its keys was written."""

    values: dict[str, Any]
    places: dict[Path, Location] = field(default_factory=dict)

    def place(self, path: Path) -> Location | None:
        """Where the key of this path stands, or the nearest key above it that was written down."""
        return next((self.places[path[:k]] for k in range(len(path), -1, -1) if path[:k] in self.places), None)


def read_yaml(text: str, name: str) -> Sourced:
    """Parses one YAML document and remembers the place of every key.

    Args:
        text: the document.
        name: the file's name, as findings shall show it.

    Raises:
        ConfigurationError: no YAML, keys that repeat, or no mapping.
    """
    lines = text.splitlines()

    def locate(mark: yaml.Mark, length: int = 1) -> Location:
        source = _USER_IN_ADDRESS.sub(r"\1***@", _SECRET_VALUE.sub(r"\1***", lines[mark.line])) if mark.line < len(lines) else ""
        return Location(name, mark.line + 1, mark.column + 1, length, source)

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigurationError([Finding(f"no valid YAML: {error.problem}", locate(mark) if mark else None)]) from error
    except yaml.YAMLError as error:
        raise ConfigurationError([Finding(f"{name}: no valid YAML: {error}")]) from error
    if not isinstance(values, dict):
        raise ConfigurationError([Finding("the settings must be a mapping of keys to values", Location(name, 1, 1, 1, lines[0]))])
    places: dict[Path, Location] = {}
    repeated: list[Finding] = []
    if node is not None:
        for path, mark, length in _keys(node, ()):
            place = locate(mark, length)
            if path in places:
                repeated.append(Finding(f'"{path[-1]}" is given twice', place, f"first in line {places[path].line}"))
            places[path] = place
    if repeated:
        raise ConfigurationError(repeated)
    return Sourced(values, places)


def _keys(node: yaml.Node, path: Path) -> Iterator[tuple[Path, yaml.Mark, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            yield here, key.start_mark, len(str(key.value))
            yield from _keys(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*path, number), value.start_mark, max(1, value.end_mark.column - value.start_mark.column)
            yield from _keys(value, (*path, number))


def is_setting(variable: str, model: type[BaseModel]) -> bool:
    """Whether a variable gives a setting; those that neither hold ``__`` nor name a setting of the first level belong to somebody else (Kubernetes' ``CEP_PORT`` for instance)."""
    path = variable.removeprefix(PREFIX).lower()
    return variable.startswith(PREFIX) and (NESTING in path or path in model.model_fields)


def read_environment(env: Mapping[str, str], model: type[BaseModel], below: dict[str, Any]) -> Sourced:
    """The settings among environment variables: ``CEP_KAFKA__BOOTSTRAP_SERVERS`` is ``kafka.bootstrap_servers``.

    Values are YAML, so lists and mappings can be given (``["a", "b"]``); those of settings that are texts are taken as they stand (``yes`` is a password as
    any other). Names are compared without case; below ``streams`` and other free keys the spelling of the settings file wins.

    Args:
        env: the environment; what is no setting (`is_setting`) is left alone.
        model: the settings.
        below: the values of the settings file, for the spelling of free keys.
    """
    values: dict[str, Any] = {}
    places: dict[Path, Location] = {}
    for name, text in sorted(env.items()):
        if not is_setting(name, model):
            continue
        path = _spelling(name.removeprefix(PREFIX).lower().split(NESTING), below)
        node = values
        for segment in path[:-1]:
            inner = node.get(segment)
            node[segment] = inner if isinstance(inner, dict) else {}
            node = node[segment]
        node[path[-1]] = text if _is_text(model, path) else plain_value(text)
        places[tuple(path)] = Location(name, 1, 1)  # without its text: it may be a secret
    return Sourced(values, places)


def _spelling(segments: list[str], below: Any) -> list[str]:
    path: list[str] = []
    for segment in segments:
        keys = [str(key) for key in below] if isinstance(below, dict) else []
        key = next((k for k in keys if k.lower() == segment), segment)
        path.append(key)
        below = below.get(key) if isinstance(below, dict) else None
    return path


def _is_text(model: type[BaseModel], path: Sequence[str]) -> bool:
    """Whether a setting is a text and nothing else."""
    kinds: tuple[Any, ...] = (model,)
    for segment in path:
        sections = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        mappings = [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]
        found = [section.model_fields[segment].annotation for section in sections if segment in section.model_fields] + mappings
        kinds = tuple(kind for one in found for kind in _alternatives(one))
    return bool({str, SecretStr} & set(kinds)) and set(kinds) <= {str, SecretStr, type(None)}


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in {UnionType, Union} else (annotation,)


def plain_value(text: str) -> Any:
    """A variable's text as YAML, where that makes it a list, a mapping or a boolean."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    # numbers are read by the type of the setting
    return value if isinstance(value, dict | list | bool) else text


def merge(lower: Sourced, upper: Sourced) -> Sourced:
    """The upper source over the lower one: mappings are merged key by key, everything else is replaced."""
    return Sourced(_merge(lower.values, upper.values), {**lower.places, **upper.places})


def _merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        known = merged.get(key)
        merged[key] = _merge(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged
