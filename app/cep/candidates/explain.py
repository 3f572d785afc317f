"""How candidates are taken up, for people (``cep explain --stage code``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.cep.candidates.layout import Taking
from app.cep.predicates import opcodes

_NAMES = {value: name.removeprefix("OP_").lower() for name, value in vars(opcodes).items() if name.startswith("OP_")}


def explained(taking: Taking, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Cells, the tables of a way of matching, and all programs."""
    return {
        "cells": dict(taking.attributes),
        "cells_per_event": taking.width,
        **tables,
        "local": [list(one) for one in taking.local],
        "code": [[_NAMES.get(operation, str(operation)), *arguments] for operation, *arguments in taking.programs.code.tolist()],
        "constants": taking.programs.constants.tolist(),
    }
