"""A query's automaton as JSON values, whichever evaluator runs it: what is left of the pattern after every event, and what is decided on the way.

Queries of the runs evaluator are drawn as they are run there, also where the alternatives of an OR are matched apart. A plain sequence on stacks has one state per item; of a temporal query the steps are drawn that a tuple takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from app.cep.door import Drawn, Edge, drawn
from app.config.durations import format_duration
from app.query.explain.explain_runs import binding_names, name_of, pattern_text, types_text
from app.query.explain.stages import show
from app.query.plan import Item, Plan, Temporal

MOST_STATES = 24
"""More would be a carpet."""


@lru_cache(maxsize=64)
def automaton(plan: Plan) -> dict[str, Any]:
    """The automaton of a plan, as JSON values. They are shared: not to be changed."""
    if plan.temporal is not None:
        return {"kind": "temporal", "pattern": "", "states": _plain(plan, list(_steps(plan.temporal))), "more": 0}
    pattern = pattern_text(plan.pattern, plan)
    if plan.runs is None:
        return {"kind": "sequence", "pattern": pattern, "states": _plain(plan, list(_sequence(plan))), "more": 0}
    states, more = drawn(plan, MOST_STATES)
    return {"kind": "automaton", "pattern": pattern, "states": _plain(plan, states), "more": more}


def _plain(plan: Plan, states: list[Drawn]) -> list[dict[str, Any]]:
    types = {name_of(item): types_text(item) for item in plan.items}
    return [
        {
            "state": state.number,
            "left": state.left,
            "ends": state.ends,
            "deciding": list(state.deciding),
            "edges": [
                {
                    "item": edge.item,
                    "types": types.get(edge.item, ""),
                    "to": edge.target,
                    "decides": list(edge.decides),
                    "until": edge.stops,
                }
                for edge in state.edges or ()
            ],
        }
        for state in states
    ]


def _sequence(plan: Plan) -> Iterator[Drawn]:
    """A state per positive item of a plain sequence; a negation is decided between its neighbours."""
    positive = plan.positive
    for number in range(len(positive) + 1):
        begin = positive[number - 1].index + 1 if number else 0
        left = [("!" if item.negated else "") + name_of(item) for item in plan.items[begin:]]
        at_end = number == len(positive)
        absent = tuple(_absent(plan, begin, positive[number].index if not at_end else len(plan.items), at_end=at_end))
        edges = () if at_end else (Edge(name_of(positive[number]), number + 1, (*_decided(plan, positive[number]), *absent)),)
        yield Drawn(number, ", ".join(left) or "nothing", at_end, absent if at_end else (), edges)


def _decided(plan: Plan, item: Item) -> Iterator[str]:
    """Predicates whose last item this is."""
    names = binding_names(plan)
    for join in plan.joins:
        if join.negated_item is None and max(join.items) == item.bound_to:
            yield show(join.condition, names)


def _absent(plan: Plan, begin: int, end: int, *, at_end: bool) -> Iterator[str]:
    for item in plan.items[begin:end]:
        if item.negated:
            where = "until the end" if at_end else "in between" if begin else "before"
            yield f"no {types_text(item)} {name_of(item)} {where}"


def _steps(temporal: Temporal) -> Iterator[Drawn]:
    """What becomes of an event of a temporal query."""
    key = f" by {', '.join(temporal.key)}" if temporal.key else ""
    lasts = "the next" if temporal.duration_ms is None else f"for {format_duration(temporal.duration_ms)}"
    valid = () if temporal.valid is None else (f"valid {temporal.valid.operator}",)
    window = temporal.window
    size = f"{window.range} events" if window.unit == "events" else format_duration(window.range)
    yield Drawn(0, f"events{key}", ends=False, deciding=(), edges=(Edge("tuple", 1, (f"valid until {lasts}",)),))
    gap = f"gaps up to {format_duration(temporal.max_gap_ms)}"
    yield Drawn(1, ", ".join(temporal.select), ends=False, deciding=(), edges=(Edge("coalesced", 2, ("equal tuples touch", gap)),))
    yield Drawn(2, f"window {size}", ends=True, deciding=valid, edges=())
