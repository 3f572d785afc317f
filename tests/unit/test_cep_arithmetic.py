"""Integers are those of 64 bit, and floats where they leave them: as Python's unbounded ones say."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.cep.cells.arrays import machine_scratch
from app.cep.predicates.kernels_values import arithmetic
from app.cep.predicates.opcodes import FLOAT, INTEGER, MAX_INTEGER, MIN_INTEGER, OP_ADD, OP_MULTIPLY, OP_SUBTRACT

NEAR = st.sampled_from([0, MAX_INTEGER, MIN_INTEGER, 2**62, -(2**62), 2**32, -(2**32), 3037000499, 3037000500, -3037000500, 2**53 + 1])
NUMBERS = st.one_of(
    st.integers(MIN_INTEGER, MAX_INTEGER),
    st.integers(-(2**34), 2**34),
    st.builds(lambda near, more: min(max(near + more, MIN_INTEGER), MAX_INTEGER), NEAR, st.integers(-3, 3)),
)
OPERATIONS = {OP_ADD: operator.add, OP_SUBTRACT: operator.sub, OP_MULTIPLY: operator.mul}


@pytest.mark.parametrize("code", OPERATIONS)
@settings(max_examples=20 * settings.default.max_examples)
@example(3037000500, 3037000500)
@example(3037000500, -3037000500)
@example(2**53 - 1, 1025)
@example(MIN_INTEGER, -1)
@example(MIN_INTEGER, 1)
@example(0, MIN_INTEGER)
@example(-1, MIN_INTEGER)
@example(MIN_INTEGER, MIN_INTEGER)
@given(NUMBERS, NUMBERS)
def test_what_leaves_64_bit_is_a_float(code: int, left: int, right: int) -> None:
    scratch = machine_scratch(2)
    scratch.tags[:2], scratch.values[:2] = INTEGER, (left, right)
    arithmetic(scratch, 0, code)
    exact = OPERATIONS[code](left, right)
    if MIN_INTEGER <= exact <= MAX_INTEGER:
        assert (scratch.tags[0], int(scratch.values[0])) == (INTEGER, exact)
    else:
        found = float(scratch.values.view(np.float64)[0])
        assert scratch.tags[0] == FLOAT
        assert found == (float(exact) if code != OP_MULTIPLY else float(left) * float(right))
