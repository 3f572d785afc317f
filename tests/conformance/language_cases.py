"""Hand-worked cases of the language page: ``language/*.yaml``, read into queries, events and expected composite events.

A case is ``{name, query, events, expect}``. ``query`` is the query file without its name. ``events`` are words ``A``, ``A@5``, ``A@5(v=1,s=x)``:
type, seconds (default: one more than the event before, from 0), attributes; those a type has in no word are absent, ``null`` is null.
``expect`` lists composite events in any order: ``a0 b2`` binds the event at position 0 to a and the one at 2 to b (``_0``: to an anonymous item);
``@5`` is the time in seconds where it is not that of the last event, ``w3`` the window, ``timeout`` in front a partial match that ran out of
window. As a mapping ``{a0 b2: {field: value}}`` all fields are given, too. ``decision`` says what was
decided where the page is silent; ``engine: differs`` that the engine does not find it yet (the test fails once it does).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "language"
WORD = re.compile(r"(?P<type>\w+)(?:@(?P<at>[\d.]+))?(?:\((?P<attributes>[^)]*)\))?$")
Lines = list[dict[str, Any]]


@dataclass(frozen=True)
class Expected:
    """A composite event: (position, variable) in total order, time in ms (None: of the last event), window, fields (None: any)."""

    events: tuple[tuple[int, str | None], ...]
    time: int | None = None
    window: int | None = None
    timeout: bool = False
    fields: dict[str, Any] | None = None


@dataclass(frozen=True)
class Case:
    """One case: ``query`` as a mapping without a name."""

    name: str
    query: dict[str, Any]
    lines: Lines
    expected: tuple[Expected, ...]
    differs: bool = False

    @property
    def yaml_text(self) -> str:
        """The query file."""
        return yaml.safe_dump({"name": "q", **self.query}, sort_keys=False, width=1000)

    def missing_and_surplus(self, written: Lines) -> tuple[list[str], list[str]]:
        """What `cep replay` should have written and did not, and what it should not have written."""
        missing = list(self.expected)
        surplus = []
        for composite in written:
            found = next((one for one in missing if fits(one, composite, self.lines)), None)
            if found is None:
                surplus.append(json.dumps(composite))
            else:
                missing.remove(found)
        return [str(one) for one in missing], surplus


def fits(expected: Expected, composite: Mapping[str, Any], lines: Lines) -> bool:
    """Whether this is the expected composite event."""
    last = expected.time if expected.time is not None else lines[expected.events[-1][0]]["time"]
    return (
        sorted((event["position"], event["var"]) for event in composite["events"]) == list(expected.events)
        and composite["time"] == last
        and composite["window"] == expected.window
        and (composite.get("kind") == "timeout") == expected.timeout
        and (expected.fields is None or composite["fields"] == expected.fields)
    )


def cases() -> list[Case]:
    """All cases of all files."""
    return [case(entry) for path in sorted(FOLDER.glob("*.yaml")) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def case(entry: dict[str, Any]) -> Case:
    return Case(
        entry["name"], entry["query"], lines_of(entry["events"]), tuple(expected_of(one) for one in entry["expect"]), "engine" in entry
    )


def lines_of(words: str) -> Lines:
    """Events as `cep replay` reads them: one object per line."""
    lines: Lines = []
    time = -1000
    for word in words.split():
        found = WORD.match(word)
        assert found, word
        time = round(float(found["at"]) * 1000) if found["at"] else time + 1000
        pairs = [pair.split("=") for pair in found["attributes"].split(",")] if found["attributes"] else []
        lines.append({"type": found["type"], "time": time, **{name: yaml.safe_load(value) for name, value in pairs}})
    return lines


def expected_of(entry: str | dict[str, Any]) -> Expected:
    text, fields = (entry, None) if isinstance(entry, str) else next(iter(entry.items()))
    events: list[tuple[int, str | None]] = []
    time = window = None
    for word in text.removeprefix("timeout ").split():
        if word.startswith("@"):
            time = round(float(word[1:]) * 1000)
        elif re.fullmatch(r"w-?\d+", word):
            window = int(word[1:])
        else:
            variable, position = re.fullmatch(r"([a-z_]+)(\d+)", word).groups()
            events.append((int(position), None if variable == "_" else variable))
    return Expected(tuple(sorted(events)), time, window, text.startswith("timeout "), fields)
