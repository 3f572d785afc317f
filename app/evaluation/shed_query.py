"""A query and a recording that shedders learn from, and are judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.events.batch import EventBatch, take
from app.features.events import candidate_items
from app.query.compile import Compiled
from app.query.plan import QUERY_STREAM, Plan
from app.query.planning.planning import plan_as_runs
from app.query.resolved.resolved import Resolved
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
        return self.as_runs if METHODS[shedder].of_matches else self.plan

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


def plans_of(query: Compiled) -> tuple[Plan, Plan] | None:
    """Plans of `ShedQuery`; None for temporal queries, and those that read other queries."""
    plan = query.plan
    if plan is None or not isinstance(query.resolved, Resolved) or any(stream.startswith(QUERY_STREAM) for stream in plan.streams):
        return None
    return plan, plan if plan.runs is not None else plan_as_runs(query.resolved)
