"""The tables of a plan of chains, for people."""

from __future__ import annotations

from typing import Any

from app.cep.candidates.explain import explained
from app.cep.candidates.layout import text_constants
from app.cep.cells.texts import TextTable
from app.cep.chains.layout import layout_of
from app.query.plan import Plan
from app.query.planning.chains import chain_of

_TABLE = 2
"""Axes of a table."""


def tables_of(plan: Plan) -> dict[str, Any]:
    """Rows without names: the columns are those of `app.cep.chains.arrays`."""
    chain = chain_of(plan)
    assert chain is not None, "a plan of chains"  # noqa: S101
    layout = layout_of(plan, chain, {}, TextTable(text_constants(plan)))
    tables = {name: rows.tolist() for name, rows in layout.tables._asdict().items() if rows.ndim == _TABLE}
    return explained(layout.taking, {**tables, "anchors": layout.anchors.tolist()})
