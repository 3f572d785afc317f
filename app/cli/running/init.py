"""``cep init``: a settings file to begin from."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from app.bootstrap.places import PROJECT, QUICKSTART
from app.cli.output import Output, OutputOption, require_folders, write_json
from app.config.settings import load_settings
from app.errors import CepError, ConfigurationError

_HEAD = """# Settings of the application. What is not here has its default: ops/settings.md explains every setting.
# Paths of schemas, queries and models count from this file's folder, all others from the working directory.
# Every setting can also come from the environment: CEP_KAFKA__BOOTSTRAP_SERVERS, CEP_SCHEMA_REGISTRY__URL, …
"""
_SHIPPED_PATH = re.compile(r"\.\./\.\./([\w./-]*)")
_PLAIN_SCALAR = re.compile(r"[A-Za-z_./][\w./:-]*")


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The settings file; there must be none yet.")],
    brokers: Annotated[str, typer.Option("--brokers", help="Kafka's bootstrap servers.")] = "localhost:9092",
    registry: Annotated[str, typer.Option("--registry", help="URL of the schema registry.")] = "http://localhost:8081",
    output: OutputOption = Output.text,
) -> None:
    """Write a settings file to begin from: the streams and queries of the demo, with your broker and registry.

    Exit codes: 0 written, 1 there is such a file, or it cannot be written, 78 no such folder, or an address that no application takes.
    """
    require_folders(file)
    text = settings_text(QUICKSTART.read_text(encoding="utf-8"), file.resolve().parent, brokers, registry)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise CepError(f"{file} is there already, and was not touched\nhint: name another one, or delete it") from None
    except OSError as error:
        raise CepError(f"{file} cannot be written: {error.strerror}\nhint: is its folder there, and yours?") from error
    try:
        load_settings(file, {})
    except ConfigurationError:
        file.unlink()
        raise
    if output is Output.json:
        write_json({"file": str(file.resolve())})
        return
    print(f"{file} written: change its streams and queries to yours. Then:")
    for command in ("validate", "topics plan", "topics apply", "doctor", "run"):
        print(f"  cep {command} --settings {file}")


def settings_text(shipped: str, folder: Path, brokers: str, registry: str) -> str:
    """The shipped settings, with paths that count from a folder.

    Args:
        shipped: text of `QUICKSTART`.
        folder: where the file will be.
        brokers: Kafka's bootstrap servers.
        registry: URL of the schema registry.
    """
    body = shipped[shipped.index("application:") :]
    to_project = os.path.relpath(PROJECT, folder)
    base = "" if to_project == "." else f"{to_project}/"
    body = _SHIPPED_PATH.sub(lambda found: _scalar(f"{base}{found[1]}"), body)
    return _HEAD + body.replace("http://localhost:8081", _scalar(registry)).replace("localhost:9092", _scalar(brokers))


def _scalar(text: str) -> str:
    """In YAML, inside of a list as well.

    >>> _scalar("b1:9092"), _scalar("[::1]:9092"), _scalar("b1:9092,b2:9092")
    ('b1:9092', '"[::1]:9092"', '"b1:9092,b2:9092"')
    """
    return text if _PLAIN_SCALAR.fullmatch(text) else json.dumps(text)
