"""The order in which constructs are evaluated: one for all events (macro-arrows), and shortcuts from single regions (micro-arrows).

**Source:** Lee and Lee, JIIS 39(2) 2012, sections 4.2 (macro-sequence) and 4.3 (hybrid-sequence).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_ARROW = -1


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """An evaluation sequence of a stream's constructs.

    Attributes:
        order: numbers of constructs (`app.asc.constructs.Constructs`): the macro-sequence, complete.
        arrows: by construct, int32 (regions,): the construct to which the region's micro-arrow leads, or `NO_ARROW`. Constructs without any
            arrow, and regions behind the array's end, have none.
    """

    order: tuple[int, ...]
    arrows: Mapping[int, NDArray[np.int32]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.order == other.order and self.to_plain() == other.to_plain()

    def __hash__(self) -> int:
        return hash(self.order)

    @staticmethod
    def fixed(order: Iterable[int]) -> Sequence:
        """A macro-sequence without micro-arrows."""
        return Sequence(tuple(int(number) for number in order))

    def arrow(self, construct: int, region: int) -> int:
        """The construct to which a region's micro-arrow leads, or `NO_ARROW`."""
        own = self.arrows.get(construct)
        return NO_ARROW if own is None or region >= len(own) else int(own[region])

    def fits(self, constructs: int) -> bool:
        """Whether it is a sequence of so many constructs."""
        targets = [int(own.max()) for own in self.arrows.values() if len(own)]
        return sorted(self.order) == list(range(constructs)) and max((*targets, *self.arrows, -1)) < constructs

    @property
    def micro_arrows(self) -> int:
        """How many regions have one."""
        return sum(int(np.count_nonzero(own >= 0)) for own in self.arrows.values())

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON; equal arrows of neighbouring regions are written once.

        >>> Sequence((1, 0), {1: np.array([-1, -1, 0], dtype=np.int32)}).to_plain()
        {'order': [1, 0], 'arrows': {'1': [[2, -1], [1, 0]]}}
        """
        arrows = {
            str(number): [[len(list(same)), target] for target, same in groupby(own.tolist())]
            for number, own in sorted(self.arrows.items())
            if (own >= 0).any()
        }
        return {"order": list(self.order), "arrows": arrows}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Sequence:
        """Reads what `to_plain` gave."""
        arrows = {
            int(number): np.repeat(np.array([target for _, target in runs], dtype=np.int32), [length for length, _ in runs])
            for number, runs in plain["arrows"].items()
        }
        return Sequence(tuple(plain["order"]), arrows)
