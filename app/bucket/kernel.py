"""Declares the kernels of buckets; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from app.events.kernel import declaring, sources_in, stamp_of

_SHARED = sources_in(files("app.cep.cells"), "arrays.py", "kernels_memory.py")
"""Of another floor, compiled in."""

kernel = declaring(stamp_of([*sources_in(files("app.bucket"), "kernels"), *_SHARED]), nogil=True)
"""Takes the signature; callable without the interpreter's lock."""
