"""Declares the kernels of files that are written; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from app.events.kernel import TEXT_SOURCE, declaring, sources_in, stamp_of

kernel = declaring(stamp_of([*sources_in(files("app.cli.replay"), "kernels"), TEXT_SOURCE]))
"""For functions of this package: called under the interpreter's lock."""
