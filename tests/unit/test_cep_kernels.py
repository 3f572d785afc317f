"""Machine code that is kept must be of the present sources."""

from __future__ import annotations

import pytest

from app.cep.candidates import kernels_columns
from app.cep.cells import kernels_texts
from app.cep.kernel import _STAMP
from app.cep.partitions import kernels_slots
from app.cep.predicates import kernels_machine
from app.cep.stacks import kernels_construction, kernels_scan, kernels_windows
from shedding.lazy_kernel import LazyKernel

MODULES = (kernels_columns, kernels_construction, kernels_machine, kernels_scan, kernels_slots, kernels_texts, kernels_windows)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_kept_kernel_carries_the_stamp_of_all_sources_compiled_into_it(module: object) -> None:
    kernels = [one for one in vars(module).values() if isinstance(one, LazyKernel)]
    assert kernels
    for one in kernels:
        assert [cell.cell_contents for cell in one.py_func.__closure__ or ()] == [_STAMP], one.__name__
