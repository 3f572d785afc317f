"""``cep validate``: everything that is wrong with query files and settings, at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.inputs.query_streams import print_findings, require_queries, settings_of, streams_for_validation
from app.cli.later import Later
from app.cli.output import Output, OutputOption, write_json
from app.cli.settings_file import VARIABLE
from app.control.shown.query_set import plain_finding
from app.errors import Severity
from app.query.compile import query_files, read_queries
from app.query.plan import QUERY_STREAM, Plan
from app.query.text.keys import AUTO
from app.storage.check import look

beside = Later("queries.beside", "beside")
FIT_ALL = ("none", "random", AUTO)


def validate(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Query files or folders of them; by default the settings'.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--settings",
            "--config",
            envvar=VARIABLE,
            show_envvar=True,
            help="Settings file: checked, too, and queries are held against the schemas of its streams.",
        ),
    ] = None,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
    output: OutputOption = Output.text,
) -> None:
    """Check query files; exit 0 when they can run, 1 with all findings on standard error.

    Without --settings nothing is known about event types: any may exist, with any attribute.
    """
    settings = settings_of(config)
    if not paths and settings is None:
        raise typer.BadParameter("name query files, or a settings file that does (--settings)")
    files = paths or list(settings.queries.paths if settings else ())
    compiled = read_queries(files, streams_for_validation(settings, files))
    if paths:
        require_queries(compiled, paths)
    findings = [*([] if settings is None else look(settings.checkpoint.address)), *compiled.findings]
    if not compiled.errors and (settings is not None or any(_asks_more(plan) for plan in compiled.catalog.plans)):
        findings += beside(settings, compiled)
    print_findings(findings)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    if output is Output.json:
        counts = {"queries": len(compiled.queries), "files": len(query_files(files)), "errors": errors, "warnings": warnings}
        write_json({**counts, "findings": [plain_finding(finding) for finding in findings]})
    else:
        print(f"{len(compiled.queries)} queries in {len(query_files(files))} files: {errors} errors, {warnings} warnings")
    if errors or (strict and warnings):
        raise typer.Exit(1)


def _asks_more(plan: Plan) -> bool:
    """Whether more is to be asked of a query than its language: it reads others, or names a shedder that does not run on all."""
    return plan.shedding.shedder not in FIT_ALL or any(stream.startswith(QUERY_STREAM) for stream in plan.streams)
