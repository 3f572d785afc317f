"""Bytecode in the cache, where Python was told to write none beside the sources.

Container images and CI often set ``PYTHONDONTWRITEBYTECODE``. Then all that a process imports is compiled by every process again: 3.5 of the 6.2 s of CPU
that a driver takes for its imports, and owners and Spark's workers likewise. Sources stay as clean as was asked for: the bytecode is in the cache.
"""

from __future__ import annotations

import os
import sys

from app.bootstrap.places import cache_folder

_NONE = "PYTHONDONTWRITEBYTECODE"


def bytecode_in_cache() -> None:
    """From now on, for this process and those that it starts. An image has its bytecode (`ops/image/bytecode.py`) and stays as it is.

    Without the variable nothing changes; ``-B`` is left to who writes it.
    """
    if not os.environ.get(_NONE) or os.environ.get("CEP_BOOTSTRAP") == "off":
        return
    folder = cache_folder() / "bytecode"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    del os.environ[_NONE]
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder)
    sys.dont_write_bytecode = False
