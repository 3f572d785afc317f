"""The whole language by its definitions: what `cep replay` writes about a query and a file that is in no particular order."""

from __future__ import annotations

from typing import Any

from tests.naive.assignments import declared_by_runs, found, negations_hold, predicates_hold
from tests.naive.inputs import Types, events_of, scopes
from tests.naive.negation import match_time, view_of
from tests.naive.patterns import WholeQuery, items_of
from tests.naive.policies import bindings, reported
from tests.naive.predicates import View, value
from tests.naive.runs import Player
from tests.naive.shape import Assignment, items_by_number, shape_of
from tests.naive.timeouts import timed_out

Composite = dict[str, Any]


def composite_events(query: WholeQuery, lines: list[dict[str, Any]], types: Types) -> list[Composite]:
    """Composite events and timeouts, sorted by match time, then by their events in total order.

    Args:
        lines: the file's objects.
        types: attributes of each type that occurs.
    """
    shape = shape_of(query.pattern)
    written: list[tuple[Any, Composite]] = []
    for scope in scopes(query, events_of(lines, types)):
        player = Player(query, shape, scope)
        for match in reported(query, shape, matches(player)):
            written += [entry(player, match, match_time(query, shape, match, scope), types)]
        if query.timeouts:
            distinct: dict[Any, tuple[Any, Composite]] = {}
            for partial, time in timed_out(player, *player.runs()).items():
                distinct.setdefault(bindings(shape, partial), entry(player, partial, time, types, kind="timeout"))
            written += distinct.values()
    return [composite for _, composite in sorted(written, key=lambda one: one[0])]


def matches(player: Player) -> list[Assignment]:
    """All finished matches of one scope."""
    return by_runs(player) if declared_by_runs(player.query) else found(player.query, player.shape, player.scope)


def by_runs(player: Player) -> list[Assignment]:
    """What the runs find; of queries of one strategy other than skip-till-next-match it is what the definitions find, too."""
    query, shape, scope = player.query, player.shape, player.scope
    complete = dict.fromkeys(run.bound for run in player.runs()[0])
    return [one for one in complete if predicates_hold(query, shape, one, scope) and negations_hold(query, shape, one, scope)]


def entry(player: Player, match: Assignment, time: int, types: Types, **kind: str) -> tuple[Any, Composite]:
    """What is written, and what it is sorted by."""
    query, scope, items = player.query, player.scope, items_by_number(player.shape)
    composite = {
        **kind,
        "query": query.name,
        "version": query.version,
        "time": time,
        "window": scope.window,
        "fields": fields(query, view_of(query, player.shape, match, scope, player.closures), types),
        "events": [{"var": items[bound.number].var, "position": scope.events[bound.event]["position"]} for bound in match],
    }
    return (time, [bound.event for bound in match], str(composite)), composite


def fields(query: WholeQuery, view: View, types: Types) -> dict[str, Any]:
    """The return fields; by default all attributes of all positive variables."""
    if query.returns is not None:
        return {name: value(expression, view) for name, expression in query.returns}
    found: dict[str, Any] = {}
    for variable in dict.fromkeys(item.var for item in items_of(query.pattern) if item.var):
        able = {name for item in items_of(query.pattern) if item.var == variable for name in item.types}
        for attribute in sorted({attribute for name in able for attribute in types.get(name, ())}):
            found[f"{variable}_{attribute}"] = default_value(view, variable, attribute)
    return found


def default_value(view: View, variable: str, attribute: str) -> Any:
    cells = [event["attributes"].get(attribute) for event in view.of(variable)]
    if variable in view.closures:
        return cells or None
    return cells[0] if cells else None
