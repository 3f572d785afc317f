"""Declares the kernels of events; see `shedding.lazy_kernel`. Other floors declare theirs with what stands here: nobody else below the pipeline asks the shedding library for anything."""

from __future__ import annotations

from importlib.resources import files

from shedding.lazy_kernel import declaring, sources_in, stamp_of

__all__ = ["TEXT_SOURCE", "declaring", "kernel", "sources_in", "stamp_of"]

TEXT_SOURCE = files("app.events").joinpath("kernels_text.py")
"""What it holds is compiled into kernels of other floors as well."""

kernel = declaring(stamp_of(sources_in(files("app.events"), "kernels", "failures.py")))
"""For functions of this package: called under the interpreter's lock."""
