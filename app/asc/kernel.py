"""Declares the kernels of selection; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from app.events.kernel import declaring, sources_in, stamp_of

kernel = declaring(stamp_of(sources_in(files("app.asc"), "arrays.py", "kernels")), nogil=True)
"""Takes the signature; callable without the interpreter's lock."""
