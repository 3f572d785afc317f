"""Kernels that are compiled, or taken from numba's cache, when they are first called.

numba compiles a function with an explicit signature while its module is imported: with a full cache all kernels of the application took 2 s of CPU for that, and a command calls
ten of them. It also fills its tables of everything that it can compile before it looks into the cache, 0.9 s more, which machine code that is there does not need.

numba keeps machine code per function and asks only whether the function's own file has changed; constants and inlined functions of other modules are compiled in. So every kernel
seems to capture a stamp of all sources that are compiled into it: with another stamp it is another function for numba's cache.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from importlib.resources.abc import Traversable
from pathlib import Path
from types import CellType, FunctionType
from typing import Any, TextIO

from numba.core import typeinfer
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

DECLARED: list[LazyKernel] = []
"""All kernels of the modules that were imported, in the order of their declaration: a kernel comes after those that it calls."""


class KeptCode(FunctionCache):
    """numba's cache of a function. What is in it is loaded without preparing to compile; what is not is compiled by one process, and others that need it wait for that one."""

    _turn: TextIO | None = None
    _foreign = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature; None if it is not there, and then it is this process's turn to compile it."""
        rtsys.initialize(target_context)  # kernels that return arrays call it
        found = self._readable(sig, target_context)
        if found is None:
            self._turn = self._lock(fcntl.LOCK_EX)
            found = self._readable(sig, target_context)  # another process may have compiled it meanwhile
            if found is None and self._foreign:
                self.flush()
        return found

    def _readable(self, sig: Any, target_context: Any) -> Any:
        """What is kept; None where a version kept it whose types stood in other modules: numba reads the names of all types before it looks how old it is."""
        try:
            return self._load_overload(sig, target_context)
        except (AttributeError, ImportError):
            self._foreign = True
            return None

    def taken(self) -> bool:
        """Whether another process compiles it now."""
        try:
            held = self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        if held is not None:
            held.close()
        return False

    def leave(self) -> None:
        """The turn is over; it ends with the process in any case."""
        if self._turn is not None:
            self._turn.close()
            self._turn = None

    def _lock(self, how: int) -> TextIO | None:
        """A lock beside the machine code; None where nothing can be kept."""
        try:
            file = Path(self.cache_path, f"{self._impl.filename_base}.lock").open("a", encoding="utf-8")  # noqa: SIM115 - held until the turn is over
        except OSError:
            return None
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            file.close()
            raise
        return file


class LazyKernel(CPUDispatcher):
    """A function for one signature, without machine code until it is called, or a kernel that calls it is compiled.

    Args:
        function: what to compile.
        signature: a numba signature; no other is ever compiled.
        options: numba's.
    """

    def __init__(self, function: Any, signature: Any, options: dict[str, Any]) -> None:
        super().__init__(py_func=function, targetoptions={"nopython": True, "boundscheck": None, **options})
        self.declared = signature
        DECLARED.append(self)

    def ready(self) -> None:
        """Loads or compiles it, if that was not done yet."""
        with global_compiler_lock:
            if not self._can_compile or self.is_compiling:
                return
            kept = KeptCode(self.py_func)
            self._cache = kept
            try:
                with typeinfer.register_dispatcher(self):
                    self.compile(self.declared)
            finally:
                kept.leave()
            self.disable_compile()

    def taken(self) -> bool:
        """Whether another process compiles it now."""
        return self._can_compile and KeptCode(self.py_func).taken()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks when it compiles a caller."""
        self.ready()
        return super().get_call_template(args, kws)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """What numba's entrance calls where it finds no machine code for some arguments; it calls what it gets with them."""
        self.ready()
        return self


def compile_all(kernels: Sequence[LazyKernel], told: Callable[[LazyKernel], None]) -> None:
    """Makes kernels ready, first those that no other process is about: several processes share the work.

    Args:
        kernels: in the order of their declaration, or begun elsewhere.
        told: called with each of them when it is ready.
    """
    waiting = list(kernels)
    while waiting:
        elsewhere = []
        for kernel in waiting:
            if kernel.taken():
                elsewhere.append(kernel)
                continue
            kernel.ready()
            told(kernel)
        if len(elsewhere) == len(waiting):  # nothing else is left: wait for one
            elsewhere[0].ready()
        waiting = elsewhere


def stamp_of(sources: Iterable[Traversable]) -> str:
    """A hash of the files' contents, in this order."""
    return sha256(b"\0".join([one.read_bytes() for one in sources])).hexdigest()


def sources_in(folder: Traversable, *beginnings: str) -> list[Traversable]:
    """A folder's Python files whose names begin so, sorted by name."""
    return sorted(
        (one for one in folder.iterdir() if one.name.startswith(beginnings) and one.name.endswith(".py")), key=lambda one: one.name
    )


def stamped(function: Any, stamp: str) -> FunctionType:
    """The function, capturing the stamp."""
    code = function.__code__.replace(co_freevars=("_sources",))
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, (CellType(stamp),))
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, function.__qualname__, function.__doc__
    return copy


def declaring(stamp: str, **options: Any) -> Callable[..., Callable[[Any], Any]]:
    """A decorator's maker for a package whose sources have this stamp, with numba's options for all of its kernels.

    What it makes takes the signature, and ``counted`` False where references of arrays need not be counted: in functions that make no array and call
    none that returns one.
    """

    def kernel(signature: Any, *, counted: bool = True) -> Callable[[Any], Any]:
        return lambda function: LazyKernel(stamped(function, stamp), signature, {**options, "_nrt": counted})

    return kernel
