"""``cep explain --stage asc``: how selection finds the items that an event can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from app.asc.attribute import FORMS
from app.asc.regions import BitTest, Regions, regions_of
from app.asc.selection import item_tests
from app.errors import CepError
from app.events.types import Kind
from app.query.compile import Compiled
from app.query.explain import Stage
from app.query.plan import Plan


@dataclass(frozen=True, slots=True)
class _Attribute:
    """An attribute with its regions: (text of the region, indices of the items that it lets through)."""

    name: str
    regions: tuple[tuple[str, tuple[int, ...]], ...]
    likes: tuple[str, ...]


def _plan(query: Compiled) -> Plan:
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no selection; cep validate shows them')
    return query.plan


def _attributes(plan: Plan) -> list[_Attribute]:
    tests: dict[str, list[BitTest]] = {}
    for index, test in item_tests(plan):
        if test.attribute == "type" and index >= 0 and test.values == plan.items[index].types:
            continue  # shown as types
        tests.setdefault(test.attribute, []).append(BitTest(index, test))
    found = []
    for name, own in sorted(tests.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        compared = [entry.test.kind for entry in own if entry.test.values]
        regions = regions_of(FORMS.get(compared[0] if compared else Kind.INTEGER, "integers"), own, 1)
        texts = [*_bounds(regions), "NaN", "null", "absent"]
        rows = tuple((text, _items(plan, int(regions.table[k, 0]))) for k, text in enumerate(texts))
        likes = tuple(f"{entry.test.operator} {entry.test.values[0]!r}: item {entry.bit}" for entry in own if "like" in entry.test.operator)
        found.append(_Attribute(name, rows, likes))
    return found


def _bounds(regions: Regions) -> list[str]:
    """Regions as text: single values, and the open intervals between them."""
    points = [
        point.decode(errors="replace") if isinstance(point, bytes) else str(point) for point in np.asarray(regions.points, dtype=object)
    ]
    if not points:
        return ["any value"]
    ends = [*points[1:], None]
    intervals = [
        f"between {point} and {end}" if end is not None else f"greater than {point}" for point, end in zip(points, ends, strict=True)
    ]
    return [f"less than {points[0]}", *(text for pair in zip(points, intervals, strict=True) for text in pair)]


def _items(plan: Plan, bits: int) -> tuple[int, ...]:
    return tuple(item.index for item in plan.items if bits >> item.index & 1)


def _names(plan: Plan, items: tuple[int, ...]) -> str:
    return ", ".join(plan.items[item].variable or f"#{item}" for item in items) or "none"


def _types(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Items by the type that they name; those of any type by an empty text."""
    names = sorted({name for item in plan.items for name in item.types or ("",)})
    return {name: tuple(item.index for item in plan.items if name in (item.types or ("",))) for name in names}


def _text(query: Compiled) -> str:
    plan = _plan(query)
    lines = [
        f"selection of {plan.name}: one bit per item; an event's bitmap is the AND of its type's and of one region's per attribute",
        "types:",
    ]
    lines += [f"  {name or 'any type'}: {_names(plan, items)}" for name, items in _types(plan).items()]
    for attribute in _attributes(plan):
        lines.append(f"attribute {attribute.name}:")
        lines += [f"  {text}: {_names(plan, items)}" for text, items in attribute.regions]
        lines += [f"  once per distinct text, {like}" for like in attribute.likes]
    return "\n".join(lines) + "\n"


def _mermaid(query: Compiled) -> str:
    plan = _plan(query)
    lines = ["flowchart LR", '  event(["event"]) --> type{"type"}']
    before = "type"
    for number, attribute in enumerate(_attributes(plan)):
        cut = [f"{text.replace(chr(34), chr(39))}: {_names(plan, items)}" for text, items in attribute.regions]
        lines.append(f'  {before} -->|AND| a{number}["<b>{attribute.name}</b><br/>{"<br/>".join(cut)}"]')
        before = f"a{number}"
    lines.append(f'  {before} --> items(["candidate items"])')
    return "\n".join(lines) + "\n"


def _json(query: Compiled) -> str:
    plan = _plan(query)
    answer: dict[str, Any] = {
        "query": plan.name,
        "types": {name: list(items) for name, items in _types(plan).items()},
        "attributes": [
            {"name": one.name, "regions": [{"region": text, "items": list(items)} for text, items in one.regions], "likes": list(one.likes)}
            for one in _attributes(plan)
        ],
    }
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode() + "\n"


SELECTION = Stage(_text, _mermaid, _json)
