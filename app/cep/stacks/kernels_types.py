"""What numba calls the tables of `app.cep.stacks.arrays`."""

from __future__ import annotations

from numba import types

from app.cep.cells.kernels_types import INTEGERS, PROGRAMS, SCRATCH, TABLE, TEXTS
from app.cep.stacks.arrays import Machine, Memory, Output, PlanTables

PLAN_TABLES = types.NamedTuple([INTEGERS, TABLE, TABLE, TABLE, TABLE, TABLE, INTEGERS, INTEGERS], PlanTables)
MACHINE = types.NamedTuple([PROGRAMS, TEXTS, SCRATCH, INTEGERS, INTEGERS, INTEGERS, INTEGERS], Machine)
MEMORY = types.NamedTuple([TABLE, TABLE, TABLE, TABLE, INTEGERS], Memory)
OUTPUT = types.NamedTuple([TABLE, INTEGERS, TABLE, INTEGERS], Output)
