"""The tables of a plan of alternatives, for people."""

from __future__ import annotations

from typing import Any

from app.cep.alternatives.engine import split
from app.cep.stacks import explain
from app.query.plan import Plan


def tables_of(plan: Plan) -> dict[str, Any]:
    """The tables of every alternative, their names with its number before them."""
    return {f"{number} {name}": table for number, own in enumerate(split(plan)) for name, table in explain.tables_of(own.plan).items()}
