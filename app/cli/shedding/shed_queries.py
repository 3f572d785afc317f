"""What `cep train` and `cep evaluate` share: the queries of some files over one recording, as operators that shedders stand before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.cli.inputs.checks import check_inputs
from app.cli.inputs.events import Choices, ReplayInput, read_input
from app.cli.inputs.layout import AS_TOLD, Layout
from app.cli.inputs.query_streams import print_findings, settings_of
from app.cli.inputs.unread import unread_events
from app.errors import CepError, FindingsError
from app.evaluation.shed_query import ShedQuery, plans_of
from app.query.compile import Compilation, Compiled, read_queries
from app.query.plan import Plan
from app.similar import did_you_mean
from shedding.registry import METHODS


def check_shed_queries(
    queries: Sequence[Path], events: Path, config: Path | None, name: str | None, layout: Layout = AS_TOLD
) -> tuple[Plan, ...]:
    """The queries that `read_shed_queries` will give, as far as they are known without the events.

    Raises:
        FindingsError: the queries have errors.
        CepError: there is no such query, none that shedding can be judged for, or no such recording.
    """
    settings, choices = settings_of(config), Choices.for_queries(queries, layout=layout)
    compiled = check_inputs(queries, [events], settings, choices)
    found = [plans[0] for one in _wanted(compiled, queries, name) if (plans := plans_of(one)) is not None]
    _require_patterns(found)
    return tuple(found)


def read_shed_queries(
    queries: Sequence[Path], events: Path, config: Path | None, name: str | None, layout: Layout = AS_TOLD
) -> list[ShedQuery]:
    """Reads queries and events as `cep replay` does.

    Args:
        queries: files or folders.
        events: a recording.
        config: settings file with the streams.
        name: of the only query that is wanted.
        layout: of the recording.

    Raises:
        FindingsError: the queries have errors.
        CepError: there is no such query, or none that shedding can be judged for.
    """
    source = read_input(events, settings_of(config), Choices.for_queries(queries, layout=layout))
    compiled = read_queries(queries, source.streams)
    if compiled.errors:
        raise FindingsError(compiled.errors)
    print_findings([*compiled.warnings, *unread_events(source, compiled.catalog.plans)])
    found = [shed for one in _wanted(compiled, queries, name) if (shed := shed_query(one, source)) is not None]
    _require_patterns(found)
    return found


def _wanted(compiled: Compilation, queries: Sequence[Path], name: str | None) -> list[Compiled]:
    wanted = [one for one in compiled.queries if one.plan is not None and (one.enabled if name is None else one.name == name)]
    if not wanted and name is not None:
        hint = did_you_mean(name, [one.name for one in compiled.queries], "queries")
        raise CepError(f'there is no query "{name}" in {", ".join(map(str, queries))}' + (f"\nhint: {hint}" if hint else ""))
    return wanted


def _require_patterns(found: Sequence[object]) -> None:
    if not found:
        raise CepError(
            "none of the queries is a pattern over events\nhint: temporal queries, and those that read other queries, are left out"
        )


def chosen_shedders(names: Sequence[str]) -> list[str]:
    """The shedders of these names.

    Raises:
        CepError: there is none of a name.
    """
    for name in names:
        if name not in METHODS:
            raise CepError(f'there is no shedder "{name}"\nhint: there are {", ".join(METHODS)}')
    return list(dict.fromkeys(names))


def shed_query(query: Compiled, source: ReplayInput) -> ShedQuery | None:
    """The query with its events; None for temporal queries, and those that read other queries."""
    plans = plans_of(query)
    return None if plans is None else ShedQuery(*plans, source.sorted_events(plans[0].streams))
