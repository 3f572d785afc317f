"""``cep validate``: everything that is wrong with query files, at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.query_streams import print_findings, settings_of, streams_for_validation
from app.query.compile import query_files, read_queries


def validate(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Query files or folders of them.")],
    config: Annotated[Path | None, typer.Option(help="Settings file: queries are also held against the schemas of its streams.")] = None,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
) -> None:
    """Check query files; exit 0 when they can run, 1 with all findings on standard error.

    Without --config nothing is known about event types: any may exist, with any attribute.
    """
    compiled = read_queries(paths, streams_for_validation(settings_of(config)))
    print_findings(compiled.findings)
    counts = f"{len(compiled.queries)} queries in {len(query_files(paths))} files"
    print(f"{counts}: {len(compiled.errors)} errors, {len(compiled.warnings)} warnings")
    if compiled.errors or (strict and compiled.warnings):
        raise typer.Exit(1)
