"""``cep version``."""

from __future__ import annotations

import platform

from app import __version__
from app.cli.output import Output, OutputOption, write_json


def version(output: OutputOption = Output.text) -> None:
    """Print the version of the application and of Python."""
    if output is Output.json:
        write_json({"version": __version__, "python": platform.python_version(), "machine": platform.machine()})
        return
    print(f"cep {__version__} (Python {platform.python_version()}, {platform.machine()})")
