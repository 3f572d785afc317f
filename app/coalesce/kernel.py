"""Declares the kernels of temporal queries; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from numba import njit

from app.events.kernel import declaring, sources_in, stamp_of

kernel = declaring(stamp_of(sources_in(files("app.coalesce"), "")), nogil=True)
"""Takes the signature; callable without the interpreter's lock."""

inlined = njit(inline="always")
"""For small parts of kernels."""
