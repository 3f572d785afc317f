"""Declares the kernels of this floor; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from app.events.kernel import declaring, sources_in, stamp_of

kernel = declaring(stamp_of(sources_in(files("app.evaluation"), "kernels")), nogil=True)
"""Takes the signature; callable without the interpreter's lock."""
