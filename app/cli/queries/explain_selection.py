"""``cep explain --stage asc``: how selection finds the items that an event can be, and in which order it asks.

With a sample of events the order, its cover set and its micro-arrows are those that the application would find from them; without one the order
is the initial one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from app.asc.cheapest import cheapest_sequence, saving_arrows
from app.asc.constructs import Constructs
from app.asc.items import conjunctions
from app.asc.monitor import Sample
from app.asc.selection import Selection
from app.asc.sequence import Sequence
from app.cli.inputs.events import ReplayInput
from app.errors import CepError
from app.query.compile import Compiled
from app.query.explain.stages import Stage
from app.query.plan import Catalog, Plan

SAMPLED = 10_000
"""Events of a sample that an order is found from: more change nothing, and the search stays below a second."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a sample showed: constructs evaluated per event in the initial order, in the order found, and with its micro-arrows."""

    events: int
    relevant: int
    initial: float
    macro: float
    hybrid: float


class _Explained:
    """One query's selection alone, in words."""

    def __init__(self, query: Compiled, source: ReplayInput | None) -> None:
        if query.plan is None:
            raise CepError(f'query "{query.name}" has errors and so no selection; cep validate shows them')
        self.plan: Plan = query.plan
        self.selection = Selection(Catalog.of((self.plan,)), None)
        self.constructs: Constructs = self.selection.constructs
        self.sequence, self.measured = self.selection.initial, None
        if source is not None and self.constructs.attributes:
            self.sequence, self.measured = self._found(source)
        items = [item.variable or f"#{item.index}" for item in self.plan.items]
        spare = [f"{items[item.index]}'" for item in self.plan.items for _ in list(conjunctions(self.plan, item))[1:]]
        first = self.selection.layout.words * 64
        self._names = {self.selection.bit(0, k): name for k, name in enumerate(items)} | {first + k: name for k, name in enumerate(spare)}

    def _found(self, source: ReplayInput) -> tuple[Sequence, _Measured]:
        events = source.sorted_events(self.plan.streams)
        rows = (
            np.unique(np.linspace(0, len(events) - 1, min(len(events), SAMPLED)).astype(np.int64)) if len(events) else np.zeros(0, np.int64)
        )
        sample = Sample(self.constructs, self.selection.regions(events, rows))
        order = cheapest_sequence(sample)
        hybrid = Sequence(order, saving_arrows(sample, order))
        results = [self.selection.select(events, one) for one in (self.selection.initial, Sequence.fixed(order), hybrid)]
        costs = [one.evaluated / max(1, len(events)) for one in results]
        return hybrid, _Measured(len(events), len(results[0].relevant), *costs)

    def names(self, words: Any) -> str:
        """The items (and further alternatives of an item with OR, marked by a dash) whose bits are set."""
        return ", ".join(name for bit, name in self._names.items() if int(words[bit // 64]) >> bit % 64 & 1) or "none"

    def regions(self, number: int) -> list[str]:
        """A construct's regions as text: single values, the open intervals between them, and what is no value."""
        points = [point.decode(errors="replace") if isinstance(point, bytes) else str(point) for point in self.selection.points(number)]
        if not points:
            return ["any value", "NaN", "null", "absent"]
        between = [f"between {point} and {following}" for point, following in pairwise(points)] + [f"greater than {points[-1]}"]
        return [f"less than {points[0]}", *(text for two in zip(points, between, strict=True) for text in two), "NaN", "null", "absent"]

    def rows(self, number: int) -> list[tuple[str, str, str | None]]:
        """(region, items that it lets through, where its micro-arrow leads); of types, only those that are named, and all others as one."""
        texts, table = self.regions(number), self.constructs.tables[number]
        arrows = [self.sequence.arrow(number, k) for k in range(len(texts))]
        targets = [None if target < 0 else self.constructs.attributes[target] for target in arrows]
        found = [(text, self.names(table[k]), targets[k]) for k, text in enumerate(texts)]
        others = {items for _, items, _ in found[: len(texts) - 3 : 2]}
        if self.constructs.attributes[number] == "type" and len(others) == 1:
            return [*found[1 : len(texts) - 3 : 2], ("any other", others.pop(), None)]
        return found

    def cover_set(self) -> list[str]:
        """The beginning of the order after which every item has been asked something."""
        order = self.sequence.order
        length = next((k for k in range(len(order) + 1) if self.constructs.covers(order[:k])), len(order))
        return [self.constructs.attributes[number] for number in order[:length]]

    def order(self) -> list[str]:
        """Attributes in the order of the macro-sequence."""
        return [self.constructs.attributes[number] for number in self.sequence.order]


def _text(one: _Explained) -> str:
    lines = [f"selection of {one.plan.name}: one bit per item; an event's bitmap is the AND of one region's per attribute"]
    for number, attribute in enumerate(one.constructs.attributes):
        lines.append(f"attribute {attribute}, tested by {one.names(one.constructs.usages[number])}:")
        for region, items, target in one.rows(number):
            lines.append(f"  {region}: {items}" + ("" if target is None else f" -> {target}"))
        lines += [f"  once per distinct text: {like}" for like in one.selection.likes(number)]
    lines.append(f"order{'' if one.measured else ' (initial)'}: {', '.join(one.order()) or 'nothing to ask'}")
    lines.append(f"cover set: {', '.join(one.cover_set()) or 'none'}")
    if (seen := one.measured) is not None:
        lines.append(
            f"of {seen.events:,} events {seen.events - seen.relevant:,} are dropped; constructs evaluated per event: {seen.initial:.2f} in the initial order,"
            f" {seen.macro:.2f} in this one, {seen.hybrid:.2f} with {one.sequence.micro_arrows} micro-arrows (->)"
        )
    return "\n".join(lines) + "\n"


def _mermaid(one: _Explained) -> str:
    lines = ["flowchart LR", '  event(["event"])']
    before = "event"
    for number in one.sequence.order:
        cut = [f"{region}: {items}".replace(chr(34), chr(39)) for region, items, _ in one.rows(number)]
        lines.append(f'  {before} -->|AND| a{number}["<b>{one.constructs.attributes[number]}</b><br/>{"<br/>".join(cut)}"]')
        before = f"a{number}"
    for number in one.sequence.order:
        for region, _, target in one.rows(number):
            if target is not None:
                lines.append(f'  a{number} -.->|"{region.replace(chr(34), chr(39))}"| a{one.constructs.attributes.index(target)}')
    lines.append(f'  {before} --> items(["candidate items"])')
    return "\n".join(lines) + "\n"


def _json(one: _Explained) -> str:
    answer: dict[str, Any] = {
        "query": one.plan.name,
        "attributes": [
            {
                "name": attribute,
                "items": one.names(one.constructs.usages[number]),
                "regions": [{"region": region, "items": items, "arrow": target} for region, items, target in one.rows(number)],
                "likes": one.selection.likes(number),
            }
            for number, attribute in enumerate(one.constructs.attributes)
        ],
        "order": one.order(),
        "cover_set": one.cover_set(),
    }
    if (seen := one.measured) is not None:
        answer["sample"] = {
            "events": seen.events,
            "dropped": seen.events - seen.relevant,
            "constructs_per_event": {"initial": seen.initial, "macro": seen.macro, "hybrid": seen.hybrid},
        }
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode() + "\n"


def selection_stage(source: ReplayInput | None = None) -> Stage:
    """The stage, with a sample of events or without."""
    return Stage(
        lambda query: _text(_Explained(query, source)),
        lambda query: _mermaid(_Explained(query, source)),
        lambda query: _json(_Explained(query, source)),
    )
