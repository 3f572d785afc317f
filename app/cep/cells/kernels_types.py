"""What numba calls the tables of `app.cep.cells.arrays`: the types of which signatures are made."""

from __future__ import annotations

from numba import types

from app.cep.cells.arrays import Candidates, Machine, Memory, Output, PlanTables, Programs, Scratch, Texts

INTEGERS = types.int64[::1]
TABLE = types.int64[:, ::1]
PROGRAMS = types.NamedUniTuple(TABLE, 2, Programs)
TEXTS = types.NamedTuple([types.uint8[::1], INTEGERS], Texts)
SCRATCH = types.NamedUniTuple(INTEGERS, 2, Scratch)

PLAN_TABLES = types.NamedTuple([INTEGERS, TABLE, TABLE, TABLE, TABLE, TABLE, INTEGERS, INTEGERS], PlanTables)
MACHINE = types.NamedTuple([PROGRAMS, TEXTS, SCRATCH, INTEGERS, INTEGERS, INTEGERS, INTEGERS], Machine)
CANDIDATES = types.NamedTuple([INTEGERS, INTEGERS, TABLE], Candidates)
MEMORY = types.NamedTuple([TABLE, TABLE, TABLE, TABLE, INTEGERS], Memory)
OUTPUT = types.NamedTuple([TABLE, INTEGERS, TABLE, INTEGERS], Output)
