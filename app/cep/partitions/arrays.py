"""The columns of the table of partitions that all ways of matching share; what stands behind the key is theirs."""

from __future__ import annotations

# slots[slot, ...] = newest row (FREE: unused), key cells, what a way keeps of a partition
NEWEST, KEY = 0, 1
FREE, VACANT = -1, -2
"""In place of the newest row: never used; used by a partition that has no event yet."""
