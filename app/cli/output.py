"""``--output json``: what a command found, for programs. One object per line; keys stay, others may come."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app.errors import ConfigurationError, Finding


class Output(StrEnum):
    """For whom a command prints."""

    text = "text"
    json = "json"


OutputOption = Annotated[Output, typer.Option("--output", help="text for people, json for programs: one object per line.")]
"""The option of every command that prints a result."""


def write_json(value: Any) -> None:
    """One object, on one line, at once."""
    print(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY, default=str).decode(), flush=True)


def require_folders(*files: Path | None) -> None:
    """Refuses files whose folders are not there, and folders: who computes for minutes should not find out at the end.

    Raises:
        ConfigurationError: with a finding for each of them.
    """
    lacking = sorted({str(file.absolute().parent) for file in files if file is not None and not file.absolute().parent.is_dir()})
    findings = [Finding(f"there is no folder {folder}", hint=f"mkdir -p {folder}") for folder in lacking]
    findings += [
        Finding(f"{file}: is a directory", hint="name a file, in it perhaps") for file in files if file is not None and file.is_dir()
    ]
    if findings:
        raise ConfigurationError(findings)
