"""``cep explain --stage code``: the integer tables that the engine's kernels run."""

from __future__ import annotations

from typing import Any

import orjson

from app.bucket.temporal import as_one_item
from app.cep.cells.arrays import COLUMNS
from app.cep.cells.texts import TextTable
from app.cep.chains.layout import layout_of as chain_layout_of
from app.cep.engine import EngineOptions
from app.cep.predicates import opcodes
from app.cep.runs.automaton.grammar import grammar_of
from app.cep.runs.layout import layout_of as run_layout_of
from app.cep.runs.layout import text_constants as run_text_constants
from app.cep.stacks.layout import Layout, layout_of, text_constants
from app.cli.queries.explain_automaton import AUTOMATON
from app.coalesce.arrays import RULE_NAMES
from app.coalesce.coalescer import rules_of
from app.errors import CepError
from app.query.compile import Compiled
from app.query.explain.stages import Stage
from app.query.plan import Plan
from app.query.planning.chains import Chain, chain_of

TABLE = 2
"""Axes of a table."""
OPCODES = {value: name.removeprefix("OP_").lower() for name, value in vars(opcodes).items() if name.startswith("OP_")}


def _plan(query: Compiled) -> Plan:
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no tables; cep validate shows them')
    return query.plan


def _layout(query: Compiled) -> Layout:
    plan = _plan(query)
    plan = plan if plan.temporal is None else as_one_item(plan)
    return layout_of(plan, {}, TextTable(text_constants(plan)), EngineOptions())


def _tables_of_chain(plan: Plan, chain: Chain) -> dict[str, Any]:
    """Rows without names: the columns are those of `app.cep.chains.arrays`."""
    layout = chain_layout_of(plan, chain, {}, TextTable(text_constants(plan)))
    tables = {name: rows.tolist() for name, rows in layout.tables._asdict().items() if rows.ndim == TABLE}
    return {
        "cells": dict(layout.taking.attributes),
        "cells_per_event": layout.taking.width,
        **tables,
        "anchors": layout.anchors.tolist(),
        "local": [list(one) for one in layout.taking.local],
        "code": _code(layout.taking.programs.code.tolist()),
        "constants": layout.taking.programs.constants.tolist(),
    }


def _tables_of_runs(plan: Plan) -> dict[str, Any]:
    """Rows without names: the columns are those of `app.cep.runs.arrays`. Of the automaton the states next to the start are known."""
    grammar = grammar_of(plan)
    layout = run_layout_of(plan, grammar, {}, TextTable(run_text_constants(plan)))
    tables = {name: rows for name, rows in {**layout.static, **grammar.automaton.tables()}.items() if rows.ndim == TABLE}
    return {
        "cells": dict(layout.taking.attributes),
        "cells_per_event": layout.taking.width,
        **{name: rows.tolist() for name, rows in tables.items()},
        "local": [list(one) for one in layout.taking.local],
        "code": _code(layout.taking.programs.code.tolist()),
        "constants": layout.taking.programs.constants.tolist(),
    }


def _code(rows: list[list[int]]) -> list[list[Any]]:
    return [[OPCODES.get(operation, str(operation)), *arguments] for operation, *arguments in rows]


def _tables(query: Compiled) -> dict[str, Any]:
    if (plan := _plan(query)).runs is not None:
        chain = chain_of(plan)
        return _tables_of_runs(plan) if chain is None else _tables_of_chain(plan, chain)
    layout, temporal = _layout(query), _plan(query).temporal
    if temporal is None:
        tables: dict[str, Any] = {
            name: [dict(zip(columns, row, strict=True)) for row in getattr(layout.tables, name).tolist()]
            for name, columns in COLUMNS.items()
        }
    else:
        tables = {"coalescing": dict(zip(RULE_NAMES, rules_of(temporal).tolist(), strict=True))}
    return {
        "cells": dict(layout.attributes),
        "cells_per_event": layout.width,
        **tables,
        "local": [list(one) for one in layout.local],
        "code": _code(layout.programs.code.tolist()),
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
    if _plan(query).runs is not None:
        return AUTOMATON.mermaid(query)
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


def tables_stage() -> Stage:
    """The tables that the engine of a query runs."""
    return Stage(_text, _mermaid, _json)
