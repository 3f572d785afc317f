"""Compiles the kernels of temporal queries; see `app.events.stamped`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from numba import njit

from app.events.stamped import stamp_of, stamped

_STAMP = stamp_of(sorted((one for one in files("app.coalesce").iterdir() if one.name.endswith(".py")), key=lambda one: one.name))


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function for one signature, with its machine code kept beside the source, callable without the interpreter's lock."""
    return lambda function: njit(signature, cache=True, nogil=True)(stamped(function, _STAMP))


inlined = njit(inline="always")
"""For small parts of kernels."""
