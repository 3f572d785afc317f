"""What decides about matches of a sequence that takes any events: those that they bind, and those that were shed of its negated items.

More events only give such a query more matches, but for events of negated items: of these none that was kept has prevented a match that was found, and where none was shed there is nothing to ask. So whether it is found among all events is seen from these few; asking
with all of them makes the query find everything again that an unshed run had found, of several windows, to judge what one batch brought.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.audit.memory import Recalled
from app.cep.matches import Constituents, Matches
from app.events.batch import place_numbers, take
from app.query.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Lean:
    """Leaves out what decides nothing.

    Attributes:
        items: uint64 (items, words), the bits of each of the query's items.
        negated: uint64 (words,), those of its negated items.
    """

    items: NDArray[np.uint64]
    negated: NDArray[np.uint64]

    @staticmethod
    def fits(plan: Plan) -> bool:
        """Whether nothing but negated items can prevent a match: a plain sequence under skip-till-any-match, whose window counts no events."""
        return plan.runs is None and plan.temporal is None and plan.ranks == "none"

    def of(self, asked: Recalled, matches: Matches, bound: Constituents, which: NDArray[np.intp]) -> Recalled:
        """The few events, as what they decide.

        Args:
            asked: all events of the partitions and times of some matches, in total order.
            matches: that were found.
            bound: what they bind.
            which: of these, whose bound events are all there.
        """
        mine = np.isin(np.repeat(np.arange(len(matches)), np.diff(bound.starts)), which)
        rows = bound.rows[mine]
        there = place_numbers(asked.batch.source, asked.batch.offset)
        order = np.argsort(there)
        wanted = place_numbers(matches.events.source[rows], matches.events.offset[rows])
        places = order[np.searchsorted(there, wanted, sorter=order)]
        kept = np.zeros_like(asked.kept)
        np.bitwise_or.at(kept, places, self.items[bound.items[mine]])
        shed = asked.shed & self.negated
        few = np.flatnonzero((kept | shed).any(axis=1))
        return Recalled(take(asked.batch, few), kept[few], shed[few])
