"""Declares the kernels of files; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from app.events.kernel import declaring, sources_in, stamp_of

kernel = declaring(stamp_of([*sources_in(files("app.files"), "kernels"), *sources_in(files("app.events"), "kernels", "failures.py")]))
"""For functions of this package: called under the interpreter's lock."""
