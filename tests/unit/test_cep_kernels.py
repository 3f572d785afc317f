"""Machine code that is kept must be of the present sources."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from app.cep.kernel import STAMPS, rooms_of
from shedding.lazy_kernel import LazyKernel

ROOT = Path(__file__).parents[2]
MODULES = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "app" / "cep").rglob("kernels*.py"))


STAMPED = {"app.cep.kernel", "app.events.kernels_text"}
"""What declares kernels, and what every stamp is of."""


def compiled_in(module: str) -> set[str]:
    """The modules of the project that a module with kernels takes kernels or numbers of columns from."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {name for name in named if name.startswith(("app.", "shedding.")) and name not in STAMPED}
    return own.union(*(compiled_in(name) for name in own if name.startswith("app.cep.")))


@pytest.mark.parametrize("name", MODULES)
def test_every_kept_kernel_carries_the_stamp_of_its_room(name: str) -> None:
    module = import_module(name)
    for one in vars(module).values():
        if isinstance(one, LazyKernel) and one.py_func.__module__ == name:
            assert [cell.cell_contents for cell in one.py_func.__closure__ or ()] == [STAMPS[name.rpartition(".")[0]]], one.__name__


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_a_rooms_stamp_is_of_all_sources_that_are_compiled_into_its_kernels(name: str) -> None:
    rooms = rooms_of(name.rpartition(".")[0])
    for other in compiled_in(name):
        *house, room, file = other.split(".")
        assert house == ["app", "cep"], other
        assert room in rooms, other
        assert file.startswith(("arrays", "opcodes", "kernels")), other
