"""``--settings``: the option of every command that works on the application's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

VARIABLE = "CEP_SETTINGS"
"""Names the file where the option does not; the chart sets it in the driver, so that ``kubectl exec`` needs neither. It is no setting itself: those of one word are top-level ones."""

SettingsFile = Annotated[
    Path | None, typer.Option("--settings", envvar=VARIABLE, help="Settings file; CEP_… variables lie over it.", show_envvar=True)
]
