"""Machine instructions that numba has no name for, for tables of int64.

Indexing through numba tests every index for being negative; in the scan those tests were a quarter of the time.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _address(context, builder, table_type, table, row, column):
    array = context.make_array(table_type)(context, builder, table)
    stride = builder.extract_value(array.shape, 1)
    place = builder.add(builder.mul(row, stride), column)
    return builder.gep(array.data, [place])


@intrinsic
def load(typing_context, table, row, column):
    """``table[row, column]`` of a contiguous table, neither index negative."""

    def generate(context, builder, signature, arguments):
        return builder.load(_address(context, builder, signature.args[0], *arguments))

    return types.int64(table, types.int64, types.int64), generate


@intrinsic
def store(typing_context, table, row, column, value):
    """``table[row, column] = value`` of a contiguous table, neither index negative."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[3], _address(context, builder, signature.args[0], *arguments[:3]))
        return context.get_dummy_value()

    return types.void(table, types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context, table, row, column):
    """Asks the memory for the cache line of ``table[row, column]``."""

    def generate(context, builder, signature, arguments):
        address = builder.bitcast(_address(context, builder, signature.args[0], *arguments), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(function, [address, number(1), number(3), number(1)])  # for writing, keep, data
        return context.get_dummy_value()

    return types.void(table, types.int64, types.int64), generate


@intrinsic
def trailing_zeros(typing_context, word):
    """The number of the lowest set bit of a word that is not 0."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


@intrinsic
def as_float(typing_context, bits):
    """The float whose bits an integer holds."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate
