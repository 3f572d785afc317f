"""``cep explain``: a query in each of its representations, what it costs, and why it found nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from app.cli.inputs.query_streams import print_findings, settings_of, streams_for_validation
from app.cli.later import Later
from app.cli.queries.explain_automaton import AUTOMATON, PLAN
from app.cli.settings_file import StreamsFile
from app.config.settings import Settings
from app.errors import CepError, Finding
from app.query.compile import Compilation, Compiled, read_queries
from app.query.explain.stages import STAGES, Stage
from app.query.explain.stages import explain as render
from app.query.plan import QUERY_STREAM, Plan
from app.similar import did_you_mean

# What needs kernels, or events
cost_text, measured = Later("queries.explain_sample", "cost_text"), Later("queries.explain_sample", "measured")
selection_stage, tables_stage = Later("queries.explain_selection", "selection_stage"), Later("queries.explain_tables", "tables_stage")
unread_events = Later("inputs.unread", "unread_events")
read_input, choices_for = Later("inputs.events", "read_input"), Later("inputs.events", "choices_for")
explain_why_not, with_read = Later("queries.why_not", "explain_why_not"), Later("queries.why_not_input", "with_read")


def _when_asked(made: Callable[[], Stage]) -> Stage:
    """A stage that is made when it is rendered."""
    return Stage(lambda query: made().text(query), lambda query: made().mermaid(query), lambda query: made().json(query))


ALL_STAGES = {
    "ast": STAGES["ast"],
    "plan": PLAN,
    "automaton": AUTOMATON,
    "asc": _when_asked(selection_stage),
    "code": _when_asked(tables_stage),
}


def explain(  # noqa: PLR0917 - the command's options
    name: Annotated[str, typer.Argument(help="Name of the query, or its file when that holds only one.")],
    stage: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(ALL_STAGES)}: as read, as planned, as the engine goes on, as selected, as the engine runs it."
        ),
    ] = "plan",
    form: Annotated[str, typer.Option("--format", "--output", help="text, mermaid or json.")] = "text",
    queries: Annotated[
        list[Path] | None, typer.Option(help="Query files or folders; may be repeated.", show_default="those of --settings, else queries")
    ] = None,
    config: StreamsFile = None,
    why_not: Annotated[
        Path | None, typer.Option("--why-not", help="File of events: says how far each partial match came, and what ended it.")
    ] = None,
    expect: Annotated[str | None, typer.Option(help="With --why-not: positions of the events of the expected match, as 3,7.")] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            help="File of events: measures on it what the query costs per event; with --stage asc also finds the order of selection."
        ),
    ] = None,
) -> None:
    """Show how a query is understood: its syntax tree, plan, automaton, selection or the engine's tables; or why events gave no match."""
    if expect is not None and why_not is None:
        raise CepError("--expect says which match --why-not should explain\nhint: add --why-not with the file of events")
    if sample is not None and why_not is not None:
        raise CepError("--sample measures, --why-not explains: give one of them")
    if sample is not None and form != "text" and stage != "asc":
        raise CepError(f"what --sample measures is told as text\nhint: leave --format {form} out, or ask for --stage asc")
    settings = settings_of(config)
    paths = _paths(name, queries, settings)
    events = sample if why_not is None else why_not
    source = None if events is None else read_input(events, settings, choices_for(paths))
    compiled = read_queries(paths, streams_for_validation(settings, paths) if source is None else source.streams)
    query = _chosen(compiled, name, paths)
    print_findings(_about(query, compiled))
    if source is not None and query.plan is not None:
        print_findings(unread_events(source, with_read(query.plan, compiled.catalog).plans))
    if why_not is not None and source is not None:
        print(explain_why_not(query, source, form, expect, compiled), end="")
        return
    if source is not None:
        _runnable(query)
    stages = ALL_STAGES if source is None or stage != "asc" else {**ALL_STAGES, "asc": selection_stage(source)}
    print(render(query, stage, form, stages), end="")
    if source is not None and form == "text":
        plan = _runnable(query)
        print(cost_text(plan, measured(plan, source), str(sample)), end="")


def _paths(name: str, queries: list[Path] | None, settings: Settings | None) -> list[Path]:
    """Where the query is looked for."""
    file = Path(name)
    if file.suffix in {".yaml", ".yml"} and file.is_file():
        return [file]
    return queries or (list(settings.queries.paths) if settings else [Path("queries")])


def _chosen(compiled: Compilation, name: str, paths: list[Path]) -> Compiled:
    """The query, knowing who reads its composite events.

    Raises:
        CepError: there is none of this name.
    """
    chosen = compiled.queries[0].name if paths == [Path(name)] and len(compiled.queries) == 1 else name
    query = compiled.query(chosen)
    if query is None:
        raise CepError(_no_such(chosen, paths, compiled))
    readers = [one.name for one in compiled.queries if one.plan is not None and f"{QUERY_STREAM}{query.name}" in one.plan.streams]
    return replace(query, read_by=tuple(readers))


def _runnable(query: Compiled) -> Plan:
    """The plan of a query whose events are in a file.

    Raises:
        CepError: it has none, or reads what other queries find.
    """
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no plan; cep validate shows them')
    if any(stream.startswith(QUERY_STREAM) for stream in query.plan.streams):
        raise CepError(f'query "{query.name}" reads composite events of other queries; a file of events cannot show them alone')
    return query.plan


def _no_such(name: str, paths: list[Path], compiled: Compilation) -> str:
    known = [query.name for query in compiled.queries]
    hint = did_you_mean(name, known, "queries") if known else None
    message = f'there is no query "{name}" in {", ".join(map(str, paths))}'
    return f"{message}\nhint: {hint}" if hint else message


def _about(query: Compiled, compiled: Compilation) -> list[Finding]:
    """What was found in a query, and nothing of others in its file."""
    file, begin = query.document.node.file.path, query.document.node.location().line
    starts = [one.document.node.location().line for one in compiled.queries if one.document.node.file.path == file]
    end = min((start for start in starts if start > begin), default=1 << 62)
    return [one for one in compiled.findings if one.location is None or (one.location.path == file and begin <= one.location.line < end)]
