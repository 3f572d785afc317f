"""Where things lie: the project, the cache. No file is touched here."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
"""The folder that holds ``app/``; in an image or a clone the same."""
QUICKSTART = PROJECT / "app" / "local" / "quickstart.yaml"
"""Settings of the demo, and what `cep init` writes."""


def cache_folder() -> Path:
    """``$CEP_CACHE``, else ``$XDG_CACHE_HOME/cep``, else ``~/.cache/cep``."""
    told = os.environ.get("CEP_CACHE")
    if told:
        return Path(told).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser().resolve() / "cep"
