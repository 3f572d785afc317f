"""What an engine has learnt of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from app.cep.cells.texts import TextTable
from app.events.types import Kind
from app.query.plan import Plan


@dataclass(frozen=True, slots=True)
class Known:
    """Goes into a state beside the arrays, and is there again before they are read.

    Attributes:
        texts: with the constants of the plan pinned.
        kinds: of columns, as batches have shown them.
    """

    texts: TextTable
    kinds: dict[str, Kind] = field(default_factory=dict)

    @staticmethod
    def of(plan: Plan, texts: Iterable[bytes]) -> Known:
        """What is known before any event has come: texts to pin, and columns that are floats whatever the first events have."""
        return Known(TextTable(texts), dict.fromkeys(plan.floats, Kind.FLOAT))
