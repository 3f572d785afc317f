"""The tables of a plan of runs, for people."""

from __future__ import annotations

from typing import Any

from app.cep.candidates.explain import explained
from app.cep.cells.texts import TextTable
from app.cep.runs.automaton.grammar import grammar_of
from app.cep.runs.layout import layout_of, pinned_texts
from app.query.plan import Plan

_TABLE = 2
"""Axes of a table."""


def tables_of(plan: Plan) -> dict[str, Any]:
    """Rows without names: the columns are those of `app.cep.runs.arrays`. Of the automaton the states next to the start are known."""
    grammar = grammar_of(plan)
    layout = layout_of(plan, grammar, {}, TextTable(pinned_texts(plan)))
    tables = {**layout.static, **grammar.automaton.tables()}
    return explained(layout.taking, {name: rows.tolist() for name, rows in tables.items() if rows.ndim == _TABLE})
