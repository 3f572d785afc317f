"""Compiled kernels: numba compiles each when it is first called (two minutes of CPU for all) and keeps the machine code.

Done here once, visibly and on all cores, so that the first command does not seem to hang. Nothing depends on it: what is missing is
compiled when it is called, by whoever calls it first, while others wait (`shedding.lazy_kernel`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from app.bootstrap.places import PROJECT, cache_folder
from app.bootstrap.progress import Progress, say, step
from app.bootstrap.turn import exclusive

_PROCESSES = 4
"""More wait for each other's kernels."""
STREAMING = (
    "app.events",
    "app.bucket",
    "app.owners",
    "app.asc",
    "app.cep.cells",
    "app.cep.partitions",
    "app.cep.predicates",
    "app.cep.candidates",
    "app.cep.windows",
    "app.cep.negation",
    "app.cep.returns",
    "app.cep.stacks",
    "app.coalesce.kernels_windows",
)
"""Beginnings of the names of modules whose kernels the application needs for patterns of stacks and temporal queries, as the demo has them."""
_COMPILED_IN = ("arrays.py", "opcodes.py", "failures.py", "forest.py")
"""Beside the modules with kernels."""
_COMPILE = """
import importlib, sys
from shedding.lazy_kernel import DECLARED, compile_all
begin, processes, *names = sys.argv[1:]
for name in names:
    importlib.import_module(name)
own = [kernel for kernel in DECLARED if kernel.__module__ in names]
print(len(own), flush=True)
start = len(own) * int(begin) // int(processes)
compile_all([*own[start:], *own[:start]], lambda kernel: print(kernel.__module__, kernel.__name__, flush=True))
"""


class CompilationError(Exception):
    """A kernel does not compile."""


def warm_kernels() -> None:
    """Compile all kernels, unless that was done for these very sources, or somebody else looks after it (an image, the demo)."""
    if not _asked():
        return
    sources = _sources()
    stamp = _stamp(sources)
    if stamp.exists():
        return
    with exclusive(cache_folder() / "kernels" / "lock"):
        if not stamp.exists():
            try:
                with step("kernels", "compiled once, kept beside the sources") as progress:
                    _compile(_names(sources), progress)
            except CompilationError as error:  # it fails again, with all that is to be said, where it is called
                say(f"! kernels: {error}")
            stamp.touch()


@contextlib.contextmanager
def warming_kernels() -> Iterator[None]:
    """Compile, beside what the block does, the kernels that a stream needs first; the block's end ends it.

    The others are left to the commands that need them.
    """
    names = _streaming() if _asked() else []
    stamp = _stamp(_sources()).with_suffix(".streaming")
    if not names or stamp.exists() or _stamp(_sources()).exists():
        yield
        return
    children: list[subprocess.Popen[str]] = []

    def work() -> None:
        with (
            contextlib.suppress(OSError, ValueError, CompilationError),
            step("kernels", "compiled once, beside everything else") as progress,
        ):
            if _compile(names, progress, children):
                stamp.parent.mkdir(parents=True, exist_ok=True)
                stamp.touch()

    thread = threading.Thread(target=work, name="kernels", daemon=True)
    thread.start()
    try:
        yield
    finally:
        for child in children:
            child.kill()
        thread.join(timeout=5)


@contextlib.contextmanager
def compiling_kernels(python: str) -> Iterator[None]:
    """Compile the kernels that a stream needs first with another interpreter, without a word, until the block ends.

    Kernels that were under way then are compiled again by whoever needs them.
    """
    if not _asked():
        yield
        return
    with open(os.devnull, "w+") as nothing:  # noqa: PTH123 - a device
        children = _compilers(python, _streaming(), nothing, nothing)
        try:
            yield
        finally:
            for child in children:
                child.kill()
                child.wait()


def _asked() -> bool:
    return not os.environ.get("NUMBA_CACHE_DIR") and os.environ.get("CEP_KERNELS") != "off" and os.access(PROJECT / "app", os.W_OK)


def _sources() -> list[Path]:
    """The modules with kernels; a kernel's name sorts after the modules of the floors below."""
    return sorted(
        path for package in ("app", "shedding") for path in (PROJECT / package).rglob("kernels*.py") if b"from numba" in path.read_bytes()
    )


def _names(sources: Sequence[Path]) -> list[str]:
    return [".".join(path.relative_to(PROJECT).with_suffix("").parts) for path in sources]


def _streaming() -> list[str]:
    """The modules whose kernels a stream needs first."""
    return [name for name in _names(_sources()) if name.startswith(STREAMING)]


def _stamp(sources: Sequence[Path]) -> Path:
    """Of the interpreter and the sources' paths and times: what numba itself goes by."""
    folders = sorted({path.parent for path in sources})
    compiled_in = [*sources, *(folder / name for folder in folders for name in _COMPILED_IN if (folder / name).exists())]
    facts = [sys.executable, sys.version, *(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in compiled_in)]
    return cache_folder() / "kernels" / hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _compile(names: Sequence[str], progress: Progress, children: list[subprocess.Popen[str]] | None = None) -> bool:
    """Whether all were compiled; not when somebody ended it.

    Raises:
        CompilationError: a kernel does not compile.
    """
    running = children if children is not None else []
    ready: set[str] = set()
    with tempfile.TemporaryFile("w+") as said:
        try:
            running += _compilers(sys.executable, names, subprocess.PIPE, said)
            followers = [threading.Thread(target=_follow, args=(child, ready, progress), daemon=True) for child in running]
            for follower in followers:
                follower.start()
            ended = [child.wait() for child in running]
        finally:
            for child in running:
                child.kill()
        if any(code > 0 for code in ended):
            said.seek(0)
            raise CompilationError(next((line.strip() for line in reversed(said.readlines()) if line.strip()), "the compiler ended"))
        return not any(ended)


def _compilers(python: str, names: Sequence[str], output: IO[str] | int, errors: IO[str]) -> list[subprocess.Popen[str]]:
    """Processes that compile all kernels of some modules, each beginning elsewhere."""
    processes = min(_PROCESSES, os.cpu_count() or 1)
    commands = ([python, "-c", _COMPILE, str(number), str(processes), *names] for number in range(processes))
    return [subprocess.Popen(command, cwd=PROJECT, stdout=output, stderr=errors, text=True) for command in commands]


def _follow(child: subprocess.Popen[str], ready: set[str], progress: Progress) -> None:
    lines = child.stdout or iter(())
    total = int(next(iter(lines), "0") or 0)
    for line in lines:
        ready.add(line)
        progress.tell_share(len(ready), total)
