"""The events that matches bind, read off their nodes."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import types

from app.cep.chains.arrays import ANCHOR_LOWEST, ANCHOR_NUMBER, FOUND_LENGTH, FOUND_NODE, NO_ROW, PARENT, ROW
from app.cep.kernel import kernel
from app.cep.kernels_machine import INTEGERS, TABLE
from app.cep.kernels_memory import load


@kernel(types.void(TABLE, TABLE, INTEGERS, TABLE, INTEGERS, INTEGERS, INTEGERS, TABLE), counted=False)
def list_bound(nodes, found, order, anchors, starts, items, rows, anchored):
    """Items and rows of every match in total order from ``starts`` on, and the rows of its anchors.

    ``order``: items of the chain; the last one stands for all further events.
    """
    last = len(order) - 1
    for k in range(len(starts) - 1):
        node, length, start = load(found, k, FOUND_NODE), load(found, k, FOUND_LENGTH), starts[k]
        starts[k + 1] = start + length
        for at in range(length - 1, -1, -1):
            items[start + at], rows[start + at] = order[min(at, last)], load(nodes, node, ROW)
            node = load(nodes, node, PARENT)
        for j in range(len(anchors)):
            number = load(anchors, j, ANCHOR_NUMBER)
            at = number if number >= 0 else length + number
            there = load(anchors, j, ANCHOR_LOWEST) <= at < length
            anchored[k, j] = rows[start + at] if there else NO_ROW
