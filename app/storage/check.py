"""Can a checkpoint be kept there? Looked at without touching it, by ``cep validate``; `app.storage.trial` tries it out."""

from __future__ import annotations

import os
from pathlib import Path

from app.config.addresses import Address, FolderAddress
from app.errors import Finding, Severity

HINT = "name a folder that survives the driver, and that who runs the application may write to"


def look(address: Address) -> list[Finding]:
    """What is wrong with a place as seen from this machine; nothing is made, no server is asked.

    A folder that is not there yet and cannot be made here is a warning: it may be another machine's.
    """
    if not isinstance(address, FolderAddress):
        return []
    folder = Path(address.path).absolute()
    nearest = next(above for above in (folder, *folder.parents) if os.path.exists(above))  # noqa: PTH110 - Path.exists raises where a folder above may not be searched
    if not nearest.is_dir():
        return [Finding(f"checkpoint.path: {nearest} is no folder", hint=HINT)]
    if os.access(nearest, os.W_OK | os.X_OK):
        return []
    if nearest == folder:
        return [Finding(f"checkpoint.path: cannot write to {folder}", hint=HINT)]
    return [Finding(f"checkpoint.path: {folder} is not there and cannot be made here", hint=HINT, severity=Severity.WARNING)]
