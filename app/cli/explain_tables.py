"""``cep explain --stage code``: the integer tables that the engine's kernels run."""

from __future__ import annotations

from typing import Any

import orjson

from app.bucket.temporal import as_one_item
from app.cep import opcodes
from app.cep.arrays import COLUMNS
from app.cep.layout import EngineOptions, Layout, layout_of, text_constants
from app.cep.texts import TextTable
from app.coalesce.arrays import RULE_NAMES
from app.coalesce.coalescer import rules_of
from app.errors import CepError
from app.query.compile import Compiled
from app.query.explain import Stage
from app.query.plan import Plan

OPCODES = {value: name.removeprefix("OP_").lower() for name, value in vars(opcodes).items() if name.startswith("OP_")}


def _plan(query: Compiled) -> Plan:
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no tables; cep validate shows them')
    return query.plan


def _layout(query: Compiled) -> Layout:
    plan = _plan(query)
    plan = plan if plan.temporal is None else as_one_item(plan)
    return layout_of(plan, {}, TextTable(text_constants(plan)), EngineOptions())


def _tables(query: Compiled) -> dict[str, Any]:
    layout, temporal = _layout(query), _plan(query).temporal
    if temporal is None:
        tables: dict[str, Any] = {
            name: [dict(zip(columns, row, strict=True)) for row in getattr(layout.tables, name).tolist()]
            for name, columns in COLUMNS.items()
        }
    else:
        tables = {"coalescing": dict(zip(RULE_NAMES, rules_of(temporal).tolist(), strict=True))}
    code = [[OPCODES.get(operation, str(operation)), *arguments] for operation, *arguments in layout.programs.code.tolist()]
    return {
        "cells": dict(layout.attributes),
        "cells_per_event": layout.width,
        **tables,
        "local": [list(one) for one in layout.local],
        "code": code,
        "constants": layout.programs.constants.tolist(),
    }


def _text(query: Compiled) -> str:
    lines = []
    for name, content in _tables(query).items():
        if isinstance(content, list):
            lines.append(f"{name}: {'none' if not content else ''}".rstrip())
            lines += [f"  {number}: {_row(row)}" for number, row in enumerate(content)]
        elif isinstance(content, dict):
            lines.append(f"{name}: " + ", ".join(f"{key} {value}" for key, value in content.items()))
        else:
            lines.append(f"{name}: {content}")
    return "\n".join(lines) + "\n"


def _row(row: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in row.items()) if isinstance(row, dict) else " ".join(map(str, row))


def _mermaid(query: Compiled) -> str:
    layout = _layout(query)
    lines = ["flowchart LR"]
    if _plan(query).temporal is not None:
        return "\n".join([*lines, '  keys["keys"] --> runs["runs"] --> tuples["tuples"]']) + "\n"
    rows = layout.tables.positives.tolist()
    lines += [f'  s{place}["stack {row[1]}<br/>item {row[0]}"]' for place, row in enumerate(rows)]
    lines += [f"  s{place} -->|predecessor| s{place - 1}" for place in range(1, len(rows))]
    return "\n".join(lines) + "\n"


def _json(query: Compiled) -> str:
    return orjson.dumps(_tables(query), option=orjson.OPT_INDENT_2).decode() + "\n"


TABLES = Stage(_text, _mermaid, _json)
