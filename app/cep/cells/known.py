"""What an engine has learnt of its columns."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.cep.cells.texts import TextTable
from app.events.types import Kind


@dataclass(frozen=True, slots=True)
class Known:
    """Goes into a state beside the arrays, and is there again before they are read.

    Attributes:
        texts: with the constants of the plan pinned.
        kinds: of columns, as batches have shown them.
    """

    texts: TextTable
    kinds: dict[str, Kind] = field(default_factory=dict)
