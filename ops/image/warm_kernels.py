# ruff: noqa: INP001 - a program of the build, in no package
"""Compiles all kernels into NUMBA_CACHE_DIR, for the image's build: at run time they are compiled, or loaded, when they are first called.

Called with ``--check`` it fails when anything had to be compiled:
that is how the tests know that a container finds the build's work.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def kernel_modules() -> list[str]:
    """Names of the modules of `app` and `shedding` whose source mentions numba, sorted."""
    sources = sorted(path for package in ("app", "shedding") for path in (PROJECT / package).rglob("*.py"))
    return [
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
        for path in sources
        if "import numba" in (text := path.read_text(encoding="utf-8")) or "from numba" in text
    ]


def main(arguments: list[str]) -> int:
    """Imports them all; prints how long it took and how many compilations were not in the cache."""
    sys.path.insert(0, str(PROJECT))
    from numba.core import event  # noqa: PLC0415 - after the path is set, with the rest

    with event.install_recorder("numba:compile") as compilations:
        start = time.perf_counter()
        modules = kernel_modules()
        for name in modules:
            importlib.import_module(name)
        declared = importlib.import_module("shedding.lazy_kernel").DECLARED
        for kernel in declared:
            kernel.ready()
        seconds = time.perf_counter() - start
    compiled = sum(1 for _, found in compilations.buffer if found.is_start)
    print(f"{len(declared)} kernels of {len(modules)} modules in {seconds:.1f} s, {compiled} compilations")
    return 1 if compiled and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
