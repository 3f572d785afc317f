"""``--settings``: the option of every command that works on the application's own settings, or on the streams that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

VARIABLE = "CEP_SETTINGS"
"""Names the file where the option does not; the chart sets it in the driver, so that ``kubectl exec`` needs neither. It is no setting itself: those of one word are top-level ones."""

SettingsFile = Annotated[
    Path | None, typer.Option("--settings", envvar=VARIABLE, help="Settings file; CEP_… variables lie over it.", show_envvar=True)
]
StreamsFile = Annotated[Path | None, typer.Option("--settings", "--config", help="Settings file with the streams and their schemas.")]
"""The same file, where a command works on recorded events and wants to know no more than what they are. It need not be given, so the variable does not stand in for it."""
