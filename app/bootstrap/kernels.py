"""Compiled kernels: numba compiles when a module is first imported (half a minute of CPU in all) and keeps the machine code.

Done here once, visibly and on all cores, so that the first command does not seem to hang. Nothing depends on it: what is missing is
compiled when it is imported.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from app.bootstrap.places import PROJECT, cache_folder
from app.bootstrap.progress import step
from app.bootstrap.turn import exclusive

_PROCESSES = 4
"""More than so many compile the kernels that they share several times over."""
_COMPILE = """
import importlib, sys
from shedding.lazy_kernel import DECLARED
for name in sys.argv[1:]:
    importlib.import_module(name)
    for kernel in DECLARED:
        if kernel.__module__ == name:
            kernel.ready()
"""


def warm_kernels() -> None:
    """Compile all kernels, unless that was done for these very sources, or somebody else looks after numba's cache (an image)."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    sources = _sources()
    stamp = cache_folder() / "kernels" / _fingerprint(sources)
    if stamp.exists() or not os.access(PROJECT / "app", os.W_OK):
        return
    with exclusive(cache_folder() / "kernels" / "lock"):
        if not stamp.exists():
            with step("kernels", "compiled once, kept beside the sources"):
                _compile(sources)
            stamp.touch()


def _sources() -> list[Path]:
    """The modules with kernels, the largest first."""
    found = [path for package in ("app", "shedding") for path in (PROJECT / package).rglob("*.py") if b"from numba" in path.read_bytes()]
    return sorted(found, key=lambda path: (-path.stat().st_size, path))


def _fingerprint(sources: list[Path]) -> str:
    """Of the interpreter and the sources' paths and times: what numba itself goes by."""
    facts = [sys.executable, sys.version, *(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in sorted(sources))]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _compile(sources: list[Path]) -> None:
    names = [".".join(path.relative_to(PROJECT).with_suffix("").parts) for path in sources]
    processes = min(_PROCESSES, os.cpu_count() or 1)
    shares = [names[start::processes] for start in range(processes)]
    with ExitStack() as cleanup:
        children = []
        for share in filter(None, shares):
            child = subprocess.Popen([sys.executable, "-c", _COMPILE, *share], cwd=PROJECT, stderr=subprocess.DEVNULL)
            cleanup.callback(child.kill)
            children.append(child)
        for child in children:
            child.wait()
