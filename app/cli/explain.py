"""``cep explain``: a query in each of its representations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.explain_selection import SELECTION
from app.cli.explain_tables import TABLES
from app.cli.query_streams import print_findings, settings_of, streams_for_validation
from app.errors import CepError
from app.query.compile import Compilation, read_queries
from app.query.explain import STAGES
from app.query.explain import explain as render
from app.query.similar import did_you_mean

ALL_STAGES = {**STAGES, "asc": SELECTION, "code": TABLES}


def explain(
    name: Annotated[str, typer.Argument(help="Name of the query, or its file when that holds only one.")],
    stage: Annotated[
        str, typer.Option(help=f"One of {', '.join(ALL_STAGES)}: as read, as planned, as selected, as the engine runs it.")
    ] = "plan",
    form: Annotated[str, typer.Option("--format", help="text, mermaid or json.")] = "text",
    queries: Annotated[list[Path] | None, typer.Option(help="Query files or folders; may be repeated.", show_default="queries")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings file with the streams and their schemas.")] = None,
) -> None:
    """Show how a query is understood: its syntax tree, plan, selection or the engine's tables."""
    file = Path(name)
    paths = [file] if file.suffix in (".yaml", ".yml") and file.is_file() else queries or [Path("queries")]
    compiled = read_queries(paths, streams_for_validation(settings_of(config)))
    chosen = compiled.queries[0].name if paths == [file] and len(compiled.queries) == 1 else name
    query = compiled.query(chosen)
    if query is None:
        raise CepError(_no_such(chosen, paths, compiled))
    own = [f for f in compiled.findings if f.location is None or f.location.path == query.document.node.file.path]
    print_findings(own)
    print(render(query, stage, form, ALL_STAGES), end="")


def _no_such(name: str, paths: list[Path], compiled: Compilation) -> str:
    known = [query.name for query in compiled.queries]
    hint = did_you_mean(name, known, "queries") if known else None
    message = f'there is no query "{name}" in {", ".join(map(str, paths))}'
    return f"{message}\nhint: {hint}" if hint else message
