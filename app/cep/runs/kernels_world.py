"""The tables of an engine in one array of addresses: the *world* of the runs kernels.

The kernels call each other for every event and run, and passing thirty arrays by value cost more (about 0.4 µs a call) than what they did
with them. A world is three words per table: address, rows, columns. A kernel asks for the tables that it needs, which is a load or two.
Whoever makes a world keeps the arrays alive while kernels run.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np import arrayobj

from app.cep.cells.kernels_types import INTEGERS, TABLE

WORLD = INTEGERS
WORDS = 3
"""Per table: address, rows, columns."""
_WORD = ir.IntType(64)


def _view(width, context, builder, signature, arguments):
    """The array that stands at a number; ``width``: bytes of an element."""
    world = context.make_array(signature.args[0])(context, builder, arguments[0])
    first = builder.mul(arguments[1], ir.Constant(_WORD, WORDS))
    address, rows, columns = (builder.load(builder.gep(world.data, [builder.add(first, ir.Constant(_WORD, k))])) for k in range(WORDS))
    made = context.make_array(signature.return_type)(context, builder)
    size = ir.Constant(_WORD, width)
    flat = signature.return_type.ndim == 1
    arrayobj.populate_array(
        made,
        data=builder.inttoptr(address, made.data.type),
        shape=[rows] if flat else [rows, columns],
        strides=[size] if flat else [builder.mul(columns, size), size],
        itemsize=size,
        meminfo=None,
    )
    return made._getvalue()  # noqa: SLF001 - numba's own way to a value


@intrinsic
def table(typing_context, world, number):
    """A table of int64."""
    return TABLE(world, types.int64), partial(_view, 8)


@intrinsic
def line(typing_context, world, number):
    """A one-dimensional array of int64."""
    return INTEGERS(world, types.int64), partial(_view, 8)


@intrinsic
def octets(typing_context, world, number):
    """An array of bytes."""
    return types.uint8[::1](world, types.int64), partial(_view, 1)
