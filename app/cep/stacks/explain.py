"""The tables of a plan of stacks, for people."""

from __future__ import annotations

from typing import Any

from app.cep.candidates.explain import explained
from app.cep.candidates.layout import text_constants
from app.cep.cells.texts import TextTable
from app.cep.engine import EngineOptions
from app.cep.stacks.arrays import COLUMNS
from app.cep.stacks.layout import layout_of
from app.query.plan import Plan


def tables_of(plan: Plan) -> dict[str, Any]:
    """Rows with the names of their columns."""
    layout = layout_of(plan, {}, TextTable(text_constants(plan)), EngineOptions())
    tables = {
        name: [dict(zip(columns, row, strict=True)) for row in getattr(layout.tables, name).tolist()] for name, columns in COLUMNS.items()
    }
    return explained(layout.taking, tables)
