from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from numba.core.registry import CPUDispatcher

from app.bootstrap.kernels import _sources
from shedding import kernel
from shedding.lazy_kernel import LazyKernel

FOLDER = Path(kernel.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("kernels*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_machine_code_is_kept_only_as_long_as_all_kernels_stay_the_same(name: str) -> None:
    """numba looks at a function's own file only, and functions of other files are compiled in."""
    found = [one for one in vars(import_module(f"shedding.{name}")).values() if isinstance(one, CPUDispatcher) and not _is_inlined(one)]
    assert found
    for one in found:
        assert [cell.cell_contents for cell in one.py_func.__closure__ or ()] == [kernel._STAMP], one.py_func.__name__


def _is_inlined(function: CPUDispatcher) -> bool:
    """It has no machine code of its own: it is a part of that of its callers."""
    return not isinstance(function, LazyKernel) and function.targetoptions.get("inline") == "always"


@pytest.mark.parametrize("name", MODULES)
def test_kernels_are_compiled_before_the_first_command(name: str) -> None:
    assert FOLDER / f"{name}.py" in _sources()
