"""``cep doctor``: is all there that the application needs, and what is to be done where it is not?"""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from app.cli.output import Output, OutputOption, write_json
from app.cli.screen import screen
from app.cli.settings_file import SettingsFile
from app.config.settings import load_settings
from app.pipeline.checkup.checks import Check, exit_code
from app.pipeline.checkup.examine import examine

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red"), "skipped": ("–", "dim")}


def clock_ms() -> int:
    """This machine's clock."""
    return time.time_ns() // 1_000_000


def doctor(
    settings: SettingsFile = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Write no heartbeat, and so leave the clocks out.")] = False,  # noqa: FBT002
    output: OutputOption = Output.text,
) -> None:
    """Check all that the application needs, and say what to do about what is wrong.

    Versions, disks, checkpoint, HTTP port, schema registry, schemas, queries, brokers, permissions, topics, partitions and clocks, in this order. It may run beside
    the application. It changes nothing, save that two heartbeats are written (empty records, which the application takes for its own), and a file in the
    checkpoint that it deletes at once.

    Exit codes: 0 all is well (warnings do not count), else that of the first failure: 78 configuration, 77 access refused, 69 something outside is missing or amiss.
    """
    loaded = load_settings(settings, os.environ)
    checks, console = [], screen()
    for check in examine(loaded, clock_ms, write=not read_only):
        checks.append(check)
        if output is Output.json:
            write_json(check.to_plain())
        else:
            _show(console, check)
    if output is Output.text:
        counts = {state: sum(check.state == state for check in checks) for state in MARKS}
        console.print(f"{counts['failed']} failed, {counts['warning']} warnings, {counts['skipped']} left out")
    if code := exit_code(checks):
        raise typer.Exit(code)


def _show(console: Console, check: Check) -> None:
    mark, style = MARKS[check.state]
    first, *rest = check.found.splitlines() or [""]
    console.print(Text.assemble((f"{mark} ", style), (f"{check.name:<12}", "bold"), first))
    for line in rest:
        console.print(Text(f"{'':<14}{line}"))
    if check.next:
        console.print(Text.assemble(" " * 14, ("→ ", style), check.next))
