"""Kernels wait for their first call."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba import types

from app.bootstrap.kernels import CompilationError, _compile, _sources
from app.bootstrap.progress import step
from shedding import kernels as shedders_kernels
from shedding.lazy_kernel import DECLARED, KeptCode, LazyKernel, declaring, sources_in, stamp_of

ROOT = Path(__file__).parents[2]
IMPORT_ALL = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
from shedding import kernels as shedders_kernels
from shedding.lazy_kernel import DECLARED
assert len(DECLARED) > 100, len(DECLARED)
assert [one.__name__ for one in DECLARED if one.overloads] == []
assert "numba.np.arraymath" not in sys.modules  # where numba fills its tables
"""
kernel = declaring("a stamp", nogil=True)


@kernel(types.int64(types.int64))
def doubled(number):
    return number * 2


@kernel(types.int64(types.Array(types.int64, 1, "C", readonly=True)))
def sum_of_doubled(numbers):
    total = 0
    for k in range(len(numbers)):
        total += doubled(numbers[k])
    return total


@kernel(types.int64(types.int64))
def factorial(number):
    return 1 if number < 2 else number * factorial(number - 1)


@kernel(types.int64(types.int64))
def moved(number):
    return number + 2


@kernel(types.int64(types.int64))
def at_once(number):
    return number + 1


def test_importing_kernels_neither_compiles_nor_loads():
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in _sources()]
    subprocess.run([sys.executable, "-c", IMPORT_ALL, *names], cwd=ROOT, check=True)


def test_a_kernel_is_compiled_when_it_is_called_for_its_signature_alone():
    fresh = LazyKernel(doubled.py_func, types.int64(types.int64), {})
    assert not fresh.overloads
    assert fresh(np.int32(21)) == 42
    assert fresh(True) == 2
    assert [signature for (signature,) in fresh.overloads] == [types.int64]
    with pytest.raises(TypeError):
        fresh(np.zeros(3))


def test_machine_code_of_a_version_whose_types_stood_elsewhere_is_made_anew():
    fresh = LazyKernel(moved.py_func, types.int64(types.int64), {})
    assert fresh(1) == 3
    cache = KeptCode(moved.py_func)._cache_file
    for gone in (b"\x80\x04\x8c\x0cno.such.type\x8c\x04Type\x93.", b"\x80\x04\x8c\x0eshedding.panes\x8c\x04Type\x93."):
        Path(cache._index_path).write_bytes(pickle.dumps(cache._version, protocol=-1) + gone)
        again = LazyKernel(moved.py_func, types.int64(types.int64), {})
        assert again(1) == 3
        assert cache._load_index()


def test_a_kernel_compiles_those_that_it_calls():
    assert sum_of_doubled(np.arange(4)) == 12
    assert len(sum_of_doubled.overloads) == 1


def test_a_kernel_may_call_itself():
    assert factorial(5) == 120


def test_threads_may_call_a_kernel_for_the_first_time_at_once():
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(at_once, range(64))) == list(range(1, 65))
    assert len(at_once.overloads) == 1


def test_machine_code_is_kept_as_long_as_the_stamp(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    hits = []
    for stamp in ("one", "one", "two"):
        made = declaring(stamp)(types.int64(types.int64))(doubled.py_func)
        assert made(3) == 6
        hits.append(sum(made.stats.cache_hits.values()))
    assert hits == [0, 1, 0]


def test_the_stamp_follows_every_source(tmp_path):
    for name in ("kernels.py", "kernels_more.py", "other.py"):
        (tmp_path / name).write_text("a = 1\n")
    before = stamp_of(sources_in(tmp_path, "kernels"))
    (tmp_path / "other.py").write_text("a = 2\n")
    assert stamp_of(sources_in(tmp_path, "kernels")) == before
    (tmp_path / "kernels_more.py").write_text("a = 2\n")
    assert stamp_of(sources_in(tmp_path, "kernels")) != before


def test_kernels_are_declared_after_those_that_they_call():
    assert DECLARED.index(doubled) < DECLARED.index(sum_of_doubled)


@pytest.mark.slow
def test_a_kernel_is_compiled_by_one_process_while_others_wait(tmp_path):
    asked = "from shedding.kernels import mixed; mixed(1, 2); print(sum(mixed.stats.cache_misses.values()))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    children = [
        subprocess.Popen([sys.executable, "-c", asked], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = [child.communicate(timeout=120)[0] for child in children]
    assert sorted(map(int, said)) == [0, 0, 1]


@pytest.mark.slow
def test_processes_share_the_work(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    with step("kernels") as progress:
        assert _compile(["shedding.kernels"], progress)
    kept = {path.name.split(".")[1].rsplit("-", 1)[0] for path in tmp_path.rglob("*.nbi")}
    assert kept == {kernel.__name__ for kernel in DECLARED if kernel.__module__ == shedders_kernels.__name__}
    assert "6 of 6" in progress.line()


def test_a_kernel_that_does_not_compile_is_told(monkeypatch, tmp_path):
    (tmp_path / "kernels_broken.py").write_text("raise TypeError('cannot unify int64 and a text')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CompilationError, match="cannot unify"), step("kernels") as progress:
        _compile(["kernels_broken"], progress)
