"""The tables of ``after:``."""

from __future__ import annotations

# borders[group, ...]: whether there is one, its place in the total order, whether an event right there lies at it already, whether it has moved
SET, BORDER_TIME, BORDER_SOURCE, BORDER_OFFSET, ALREADY, CHANGED = 0, 1, 2, 3, 4, 5
BORDER_WIDTH = 6

# units[unit, ...]: the items of a place of the pattern, or of a group, as a mask; whether it takes as few events as it can
UNIT_ITEMS, RELUCTANT = 0, 1

PAST_LAST, NEXT, FIRST_OF, LAST_OF = 0, 1, 2, 3
"""Kinds of a border: the last event of a match, its first one, the first or the last one of some items."""
