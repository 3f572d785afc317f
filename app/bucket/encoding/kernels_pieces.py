"""Kernels that put records together from pieces of text. Reached only through `app.bucket.encoding.pieces`."""

from __future__ import annotations

from collections import namedtuple

from numba import njit, types

from app.bucket.encoding.kernel import kernel

Template = namedtuple("Template", ("text", "parts", "items", "between", "end"))  # noqa: PYI024
"""Constant text of records; int64 (cells + 1, 2) what stands before every cell, and behind the last one; int64 (items, 2) what stands before an
element of that item; int64 (2,) what stands between two elements, and int64 (2,) what ends a record."""
SPAN = types.int64[:, ::1]
TEMPLATE = types.NamedTuple((types.uint8[::1], SPAN, SPAN, types.int64[::1], types.int64[::1]), Template)

Cells = namedtuple("Cells", ("text", "starts", "ends", "bounds", "item", "element_starts", "element_ends"))  # noqa: PYI024
"""Text of all cells; int64 (cells, records) where each begins and ends; of the elements of record k, at ``bounds[k] : bounds[k + 1]``, item and text."""
CELLS = types.NamedTuple(
    (types.uint8[::1], SPAN, SPAN, types.int64[::1], types.int64[::1], types.int64[::1], types.int64[::1]),
    Cells,
)


@njit(inline="always")
def copied(source, start, end, target, at):  # type: ignore[no-untyped-def]
    """Copies bytes; returns the place behind them."""
    for k in range(start, end):
        target[at] = source[k]
        at += 1
    return at


@kernel(types.void(TEMPLATE, CELLS, types.int64[::1]))
def measure_records(template, cells, ends):  # type: ignore[no-untyped-def]
    """Where every record will end.

    Args:
        template: of the records.
        cells: of theirs.
        ends: int64 (records + 1,), out.
    """
    constant = template.end[1] - template.end[0]
    for part in range(len(template.parts)):
        constant += template.parts[part, 1] - template.parts[part, 0]
    between = template.between[1] - template.between[0]
    at = 0
    ends[0] = 0
    for record in range(len(cells.bounds) - 1):
        at += constant
        for cell in range(len(cells.starts)):
            at += cells.ends[cell, record] - cells.starts[cell, record]
        first = cells.bounds[record]
        last = cells.bounds[record + 1]
        for k in range(first, last):
            item = cells.item[k]
            at += template.items[item, 1] - template.items[item, 0] + cells.element_ends[k] - cells.element_starts[k]
        if last > first:
            at += (last - first - 1) * between
        ends[record + 1] = at


@kernel(types.void(TEMPLATE, CELLS, types.int64[::1], types.uint8[::1]))
def write_records(template, cells, places, data):  # type: ignore[no-untyped-def]
    """Puts the records together.

    Args:
        template: of the records.
        cells: of theirs.
        places: int64, where each record is to begin; (records,) or more.
        data: uint8, out.
    """
    last_part = len(template.parts) - 1
    for record in range(len(cells.bounds) - 1):
        at = places[record]
        for cell in range(last_part):
            at = copied(template.text, template.parts[cell, 0], template.parts[cell, 1], data, at)
            at = copied(cells.text, cells.starts[cell, record], cells.ends[cell, record], data, at)
        at = copied(template.text, template.parts[last_part, 0], template.parts[last_part, 1], data, at)
        first = cells.bounds[record]
        for k in range(first, cells.bounds[record + 1]):
            if k > first:
                at = copied(template.text, template.between[0], template.between[1], data, at)
            item = cells.item[k]
            at = copied(template.text, template.items[item, 0], template.items[item, 1], data, at)
            at = copied(cells.text, cells.element_starts[k], cells.element_ends[k], data, at)
        at = copied(template.text, template.end[0], template.end[1], data, at)
