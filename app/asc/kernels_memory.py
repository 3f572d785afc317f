"""Reading what lies at an address."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic


def _loader(result: Any) -> Callable[..., Any]:
    """Reads entry ``index`` of the array at ``address``."""

    @intrinsic
    def load(typing_context, address, index):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], context.get_value_type(result).as_pointer())
            return builder.load(builder.gep(pointer, [arguments[1]]))

        return result(types.int64, types.int64), generate

    return load


int64_at, float64_at, int32_at = _loader(types.int64), _loader(types.float64), _loader(types.int32)
uint8_at, word_at = _loader(types.uint8), _loader(types.uint64)
