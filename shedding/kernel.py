"""Declares the kernels of this library; see `shedding.lazy_kernel`."""

from __future__ import annotations

from importlib.resources import files

from shedding.lazy_kernel import declaring, sources_in, stamp_of

_FOLDERS = (files("shedding"), *(files("shedding").joinpath(name) for name in ("partial_matches", "tuples")))
_STAMP = stamp_of([one for folder in _FOLDERS for one in sources_in(folder, "kernels", "forest.py")])

kernel = declaring(_STAMP, nogil=True)
"""Takes the signature; callable without the interpreter's lock."""
