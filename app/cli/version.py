"""``cep version``."""

from __future__ import annotations

import platform

from app import __version__


def version() -> None:
    """Print the version of the application and of Python."""
    print(f"cep {__version__} (Python {platform.python_version()}, {platform.machine()})")
