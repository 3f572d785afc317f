"""The fingerprint of a plan: equal in every process, different when the meaning of its state is."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from app.query.plan import Plan

MEANINGLESS = frozenset({"title", "labels", "weight", "output", "shedding", "draining", "apart", "fingerprint"})
"""What may change while the state stays: what people read, where matches go, who is dropped under overload, how it is run."""

LATER = frozenset({"either", "floats"})
"""Fields that came later: where they say nothing, they are left out, and states of earlier versions stay valid."""


def fingerprint(plan: Plan) -> str:
    """32 hexadecimal digits over everything in the plan that decides what its state means."""
    said = {one.name: getattr(plan, one.name) for one in fields(plan) if one.name not in MEANINGLESS}
    content = {name: _canonical(value) for name, value in said.items() if name not in LATER or value}
    if plan.shedding.bounds_memory:  # what is in memory is then the shedder's choice
        content["memory"] = [plan.shedding.shedder, plan.shedding.memory_tuples]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _canonical(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return [
            type(value).__name__,
            *(_canonical(getattr(value, one.name)) for one in fields(value) if one.name not in LATER or getattr(value, one.name)),
        ]
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple | list):
        return [_canonical(one) for one in value]
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float):
        return {"float": value.hex()}
    return value
