"""What `cep train` and `cep evaluate` share: the queries of some files over one recording, as operators that shedders stand before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.inputs.events import Choices, ReplayInput, read_input
from app.cli.inputs.query_streams import print_findings, settings_of
from app.errors import CepError, FindingsError
from app.evaluation.operator import candidate_items
from app.events.batch import EventBatch, take
from app.query.compile import Compiled, read_queries
from app.query.plan import QUERY_STREAM, Plan
from app.query.planning.planning import plan_as_runs
from app.query.resolved.resolved import Resolved
from app.query.text.similar import did_you_mean
from shedding.interface import Method
from shedding.panes import Pane
from shedding.registry import METHODS, method


@dataclass(frozen=True, slots=True, eq=False)
class ShedQuery:
    """A pattern query and its events.

    Attributes:
        plan: for the evaluator that the query needs.
        as_runs: for the runs evaluator, whose partial matches can be dropped.
        batch: the events of its streams, in total order.
    """

    plan: Plan
    as_runs: Plan
    batch: EventBatch

    def plan_for(self, shedder: str) -> Plan:
        """The plan that a shedder works on."""
        return self.as_runs if METHODS[shedder].level == "partial matches" else self.plan

    def method(self, shedder: str) -> Method[Any]:
        """The shedder with the settings that the query gives it."""
        pane = self.plan.shedding.pane
        if pane is None or not shedder.startswith("gspice"):
            return method(shedder)
        return method(shedder, pane=Pane(events=pane.size) if pane.unit == "events" else Pane(time_ms=pane.size))

    def selected(self) -> ShedQuery:
        """Without the events that no item takes, which selection keeps away from the operator at next to no cost; with all where these are counted."""
        if self.plan.ranks != "none":
            return self
        return replace(self, batch=take(self.batch, np.flatnonzero(candidate_items(self.plan, self.batch))))


def read_shed_queries(queries: Sequence[Path], events: Path, config: Path | None, name: str | None) -> list[ShedQuery]:
    """Reads queries and events as `cep replay` does.

    Args:
        queries: files or folders.
        events: a recording.
        config: settings file with the streams.
        name: of the only query that is wanted.

    Raises:
        FindingsError: the queries have errors.
        CepError: there is no such query, or none that shedding can be judged for.
    """
    source = read_input(events, settings_of(config), Choices.for_queries(queries))
    compiled = read_queries(queries, source.streams)
    if compiled.errors:
        raise FindingsError(compiled.errors)
    print_findings(compiled.warnings)
    wanted = [one for one in compiled.queries if one.plan is not None and (one.enabled if name is None else one.name == name)]
    if not wanted and name is not None:
        hint = did_you_mean(name, [one.name for one in compiled.queries], "queries")
        raise CepError(f'there is no query "{name}" in {", ".join(map(str, queries))}' + (f"\nhint: {hint}" if hint else ""))
    found = [shed for one in wanted if (shed := shed_query(one, source)) is not None]
    if not found:
        raise CepError(
            "none of the queries is a pattern over events\nhint: temporal queries, and those that read other queries, are left out"
        )
    return found


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
    plan = query.plan
    if plan is None or not isinstance(query.resolved, Resolved) or any(stream.startswith(QUERY_STREAM) for stream in plan.streams):
        return None
    return ShedQuery(plan, plan if plan.runs is not None else plan_as_runs(query.resolved), source.sorted_events(plan.streams))
