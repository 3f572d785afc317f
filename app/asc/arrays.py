"""The tables of the kernels of selection: constructs as integers, one row each, and scratch."""

from __future__ import annotations

FORM, COLUMN, STATE, LOOKUP, POINTS, SIZE, LOWEST, NOT_A_NUMBER, TABLE, ARROWS, ARROW_COUNT, LOWS, HIGHS = range(13)
"""Fields of a construct: form of its column; addresses of values, states (or 0), lookup table, constants; how many constants (or entries of
the lookup); lowest constant; the row for NaN (null and absent follow); addresses of bitmaps and of micro-arrows; how many of these;
addresses of the least and greatest number that pass, by entry of the lists (or 0)."""
FIELDS = 13
DIRECT, INTEGERS, FLOATS, CODES = range(4)
"""Forms: integers by a table of all values; integers and floats by search in a cell; codes by a table of all entries."""
MANTISSA_BITS = 52
EXPONENT_OF_ONE = 1023
SLOTS, REGIONS, NEXT, AHEAD, SORTED = range(5)
"""Rows of the scratch array: the block's events that are alive, the region that each has just visited; by event its next construct, how far it
is in the macro-sequence; room to sort."""
SCRATCH = 5
LOOK_AGAIN = 16
"""Blocks after which it is tried again whether events can pass a construct over, where less than one in eight could: the look costs as much as the
AND (3,000 items: 400 against 250 ns per event)."""
PASSED_OVER = -1
"""Region of an event that passes a construct over."""
MANY_WORDS = 8
"""Bitmaps from which on it pays to AND several rows at a time, where no event is done before the last construct."""
SCALES = 5
"""Floats of a construct: for forms with a search lowest constant, scale, bits per doubling, cells, halvings in a cell."""
ROOM = 4096
"""Entries more than the share that is allowed, before lists are given up: a few events with long lists do no harm."""
GIVEN_UP = -1
"""What a kernel of lists returns then."""
