"""What numba calls the tables of `app.cep.cells.arrays`: the types of which signatures are made."""

from __future__ import annotations

from numba import types

from app.cep.cells.arrays import Candidates, Programs, Scratch, Texts

INTEGERS = types.int64[::1]
TABLE = types.int64[:, ::1]
PROGRAMS = types.NamedUniTuple(TABLE, 2, Programs)
TEXTS = types.NamedTuple([types.uint8[::1], INTEGERS], Texts)
SCRATCH = types.NamedUniTuple(INTEGERS, 2, Scratch)
CANDIDATES = types.NamedTuple([INTEGERS, INTEGERS, TABLE], Candidates)
