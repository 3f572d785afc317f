"""``cep explain --stage code``: the integer tables that the engine's kernels run."""

from __future__ import annotations

from typing import Any

import orjson

from app.bucket.temporal import taking_of_tuples
from app.cep.candidates.explain import explained
from app.cep.door import tables_of
from app.cli.queries.explain_automaton import AUTOMATON
from app.coalesce.arrays import RULE_NAMES
from app.coalesce.coalescer import rules_of
from app.errors import CepError
from app.query.compile import Compiled
from app.query.explain.stages import Stage
from app.query.plan import Plan


def _plan(query: Compiled) -> Plan:
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no tables; cep validate shows them')
    return query.plan


def _tables(query: Compiled) -> dict[str, Any]:
    plan = _plan(query)
    if plan.temporal is None:
        return tables_of(plan)
    return explained(taking_of_tuples(plan), {"coalescing": dict(zip(RULE_NAMES, rules_of(plan.temporal).tolist(), strict=True))})


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
    plan = _plan(query)
    if plan.runs is not None:
        return AUTOMATON.mermaid(query)
    lines = ["flowchart LR"]
    if plan.temporal is not None:
        return "\n".join([*lines, '  keys["keys"] --> runs["runs"] --> tuples["tuples"]']) + "\n"
    rows = tables_of(plan)["positives"]
    lines += [f'  s{place}["stack {row["stack"]}<br/>item {row["item"]}"]' for place, row in enumerate(rows)]
    lines += [f"  s{place} -->|predecessor| s{place - 1}" for place in range(1, len(rows))]
    return "\n".join(lines) + "\n"


def _json(query: Compiled) -> str:
    return orjson.dumps(_tables(query), option=orjson.OPT_INDENT_2).decode() + "\n"


def tables_stage() -> Stage:
    """The tables that the engine of a query runs."""
    return Stage(_text, _mermaid, _json)
