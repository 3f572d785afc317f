"""The tables of ``after:``."""

from __future__ import annotations

# borders[group, ...]: whether there is one, its event's place, whether that event itself lies at it already, whether it has moved, the row of its event and 1, 0: not known
# events of a partition stand in total order; among composite events of one time places say nothing of it
SET, BORDER_TIME, BORDER_SOURCE, BORDER_OFFSET, ALREADY, CHANGED, BORDER_ROW = 0, 1, 2, 3, 4, 5, 6
BORDER_WIDTH = 7

# units[unit, ...]: the items of a place of the pattern, or of a group, as a mask; whether it takes as few events as it can
UNIT_ITEMS, RELUCTANT = 0, 1

PAST_LAST, NEXT, FIRST_OF, LAST_OF = 0, 1, 2, 3
"""Kinds of a border: the last event of a match, its first one, the first or the last one of some items."""
