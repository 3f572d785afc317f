"""Declares the kernels of records; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from app.events.kernel import declaring, sources_in, stamp_of

kernel = declaring(stamp_of(sources_in(files("app.bucket.encoding"), "kernels")))
"""For functions of this package: called under the interpreter's lock."""
