"""``cep explain --why-not FILE`` for temporal queries: which tuples there were, what was merged of them, how long it came, and what ended it.

Nothing is explained by another evaluator: the engine is asked again without ``valid``, without ``where``, with one condition at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.bucket.recording import match_sorted
from app.bucket.temporal import as_one_item
from app.bucket.values import field_values, plain_values
from app.cep.matches import Matches
from app.cli.queries.why_not_input import QueryEvents
from app.config.durations import format_duration
from app.events.batch import EventBatch
from app.owners.tuple_memory import tuple_memory
from app.query import expressions as e
from app.query.explain.stages import interval_test, show
from app.query.plan import Catalog, Plan, Temporal

SHOWN = 3
"""Coalesced tuples that are told."""
Origin = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Merged:
    """A coalesced tuple as one window saw it.

    Attributes:
        values: of key and select.
        lines: of the tuples that were merged.
        ended: what ended it.
    """

    values: dict[str, Any]
    start: int
    end: int
    window_end: int
    lines: list[int | str]
    ended: str


def why_not_temporal(plan: Plan, events: QueryEvents, form: str) -> str:
    """Why a file of events gave no coalesced tuple, or not the expected one.

    Args:
        plan: of a temporal query over the file's schemas.
        events: that it reads.
        form: text or json.
    """
    temporal = plan.temporal
    assert temporal is not None  # noqa: S101 - the caller asked
    batch = events.batch
    (item,) = plan.items
    lines = dict(zip(_places(batch.source, batch.offset), events.lines, strict=True))
    tuples = _passing(plan, batch, ())
    passed = set(_passing(plan, batch, item.local))
    refused = {_bare(one): len(tuples) - len(_passing(plan, batch, (one,))) for one in item.local}
    found = match_sorted(Catalog.of((plan,)), batch, memory_of=tuple_memory).found
    everything = replace(plan, temporal=replace(temporal, valid=None, emit="all"))
    merged = [one.matches for one in match_sorted(Catalog.of((everything,)), batch, memory_of=tuple_memory).found]
    told = _Told(temporal, batch, lines, tuples, passed)
    answer = {
        "query": plan.name,
        "events": len(batch),
        "matches": sum(len(one.matches) for one in found),
        "tuples": len(tuples),
        "passed": len(passed),
        "dropped": sum(one.tally.shed_tuples for one in found),
        "where": [{"condition": condition, "refused": count} for condition, count in refused.items()],
        "coalesced": [_plain(one) for one in told.farthest(merged)],
        "valid": None if temporal.valid is None else interval_test(temporal.valid),
    }
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode() + "\n" if form == "json" else _text(answer, temporal)


def _text(answer: dict[str, Any], temporal: Temporal) -> str:
    needed = ", ".join(dict.fromkeys((*temporal.key, *temporal.select)))
    lines = [f"why not {answer['query']}: {answer['events']:,} events, {answer['matches']:,} coalesced tuples"]
    if not answer["tuples"]:
        return "\n".join([*lines, f"nothing began: no event has all of {needed}"]) + "\n"
    lines.append(f"tuples (events with {needed}): {answer['tuples']:,}, of which {answer['passed']:,} passed where")
    lines += [f"  {one['condition']} refused {one['refused']:,}" for one in answer["where"]]
    if answer["dropped"]:
        lines.append(f"  memory was full: {answer['dropped']:,} of them went")
    if answer["passed"] and not answer["coalesced"]:
        lines.append("none of them is valid in a window")
    for number, one in enumerate(answer["coalesced"]):
        values = ", ".join(f"{name}={orjson.dumps(value, default=str).decode()}" for name, value in one["values"].items())
        merged = one["lines"]
        shown = ", ".join(map(str, merged[:5])) + (f" and {len(merged) - 5} more" if len(merged) > 5 else "")
        head = "the furthest" if number == 0 else f"number {number + 1}"
        lines.append(f"{head}: {values}, valid for {format_duration(one['length'])}, merged from lines {shown}")
        lines.append(f"  ended: {one['ended']}")
        if answer["valid"] is not None:
            lines.append(f"  asked: {answer['valid']}, in the window that ends at {one['window_end']}")
    return "\n".join(lines) + "\n"


def _bare(condition: e.Expression) -> str:
    """A condition of ``where`` with bare attribute names, as it was written."""
    return show(condition, {0: "\0"}).replace("\0.", "")


def _plain(one: Merged) -> dict[str, Any]:
    names = ("values", "start", "end", "window_end", "lines", "ended")
    return {**{name: getattr(one, name) for name in names}, "length": one.end - one.start}


def _passing(plan: Plan, batch: EventBatch, conditions: Sequence[e.Expression]) -> list[Origin]:
    """Places of the tuples that pass some conditions, in total order."""
    items = tuple(replace(item, local=tuple(conditions)) for item in plan.items)
    one = replace(as_one_item(plan), items=items)
    return [place for found in match_sorted(Catalog.of((one,)), batch).found for place in _bound(found.matches, plan)]


def _bound(matches: Matches, plan: Plan) -> list[Origin]:
    rows = matches.constituents([item.index for item in plan.positive]).rows
    return _places(matches.events.source[rows], matches.events.offset[rows])


def _places(source: Any, offset: Any) -> list[Origin]:
    return list(zip(source.tolist(), offset.tolist(), strict=True))


class _Told:
    """What became of coalesced tuples."""

    def __init__(
        self, temporal: Temporal, batch: EventBatch, lines: dict[Origin, int | str], tuples: Sequence[Origin], passed: set[Origin]
    ) -> None:
        self._temporal, self._lines, self._passed = temporal, lines, passed
        rows = {place: row for row, place in enumerate(_places(batch.source, batch.offset))}
        names = dict.fromkeys((*temporal.key, *temporal.select))
        cells = {name: _cells(batch, name) for name in names}
        self._tuples = list(tuples)
        self._number = {place: number for number, place in enumerate(tuples)}
        self._key = [tuple(cells[name][rows[place]] for name in temporal.key) for place in tuples]
        self._values = [{name: cells[name][rows[place]] for name in temporal.select} for place in tuples]
        self._time = [int(batch.time[rows[place]]) for place in tuples]

    def farthest(self, parts: Sequence[Matches]) -> list[Merged]:
        """The coalesced tuples that came nearest to ``valid``, each as the window saw it that saw most of it."""
        test = self._temporal.valid
        short = test is not None and test.operator in ("<", "<=")
        best: dict[int, Merged] = {}
        for matches in parts:
            for one, last in self._merged(matches):
                known = best.get(last)
                if known is None or one.end - one.start > known.end - known.start:
                    best[last] = one
        return sorted(best.values(), key=lambda one: (one.end - one.start) * (1 if short else -1))[:SHOWN]

    def _merged(self, matches: Matches) -> list[tuple[Merged, int]]:
        if not len(matches):
            return []
        bound = matches.constituents([0])
        places = _places(matches.events.source[bound.rows], matches.events.offset[bound.rows])
        fields = {name: field_values(column) for name, column in matches.fields.items()}
        found = []
        for k, time in enumerate(matches.time.tolist()):
            own = places[int(bound.starts[k]) : int(bound.starts[k + 1])]
            last = self._number[own[-1]]
            values = {name: fields[name][k] for name in dict.fromkeys((*self._temporal.key, *self._temporal.select))}
            ended = self._ended(last, fields["end"][k], time)
            found.append((Merged(values, fields["start"][k], fields["end"][k], time, [self._lines[one] for one in own], ended), last))
        return found

    def _ended(self, last: int, end: int, window_end: int) -> str:
        """What came after the last merged tuple."""
        following = next((n for n in range(last + 1, len(self._tuples)) if self._key[n] == self._key[last]), None)
        if (
            following is not None
            and self._time[following] < window_end + self._ends(following, last)  # who ends it just there has ended it
            and (self._temporal.duration_ms is None or self._time[following] <= end)
        ):
            line = self._lines[self._tuples[following]]
            if self._values[following] != self._values[last]:
                values = ", ".join(f"{name}={orjson.dumps(value, default=str).decode()}" for name, value in self._values[following].items())
                return f"line {line} says {values}" + ("" if self._tuples[following] in self._passed else ", and fails where")
            return f"line {line} fails where" if self._tuples[following] not in self._passed else f"line {line} is not in memory any more"
        if end >= window_end:
            return "by the end of the window only; it goes on"
        if following is None:
            return "no later tuple of its key came"
        gap = format_duration(self._time[following] - end)
        return f"its time was over; the next tuple of its key came {gap} later, on line {self._lines[self._tuples[following]]}"

    def _ends(self, following: int, last: int) -> bool:
        """Whether a value does not go on with the next tuple of its key."""
        return self._values[following] != self._values[last] or self._tuples[following] not in self._passed


def _cells(batch: EventBatch, name: str) -> list[Any]:
    if name == "time":
        return batch.time.tolist()
    if name == "type":
        return plain_values(batch.type)
    column = batch.columns.get(name)  # without composite events nobody knows their attributes
    return [None] * len(batch) if column is None else plain_values(column)
