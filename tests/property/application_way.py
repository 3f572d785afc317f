"""The way of the application: YAML text → compiled plan → selection → engine, in batches, with snapshots; answers in the naive world's words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from app.asc.selection import Selection
from app.cep.engine import EngineOptions, Watermarks
from app.cep.matches import Matches
from app.cep.stacks.engine import StacksEngine
from app.query.compile import compile_texts
from app.query.plan import Catalog, Plan
from tests.naive.language import Event, Query, yaml_text
from tests.naive.matching import Match, return_fields
from tests.property.event_arrays import _cells, event_batch, stream_schema
from tests.property.random_queries import Schemas

END = 2**63 - 1
"""The watermark at the end of a file."""
Answer = tuple[tuple[tuple[int, int, int], ...], int, tuple[tuple[str, object], ...]]
"""Bindings (item, source, offset), match time, return fields."""


def plan_of(query: Query, schemas: Schemas) -> Plan:
    """The compiled query; its findings fail the test."""
    compilation = compile_texts([("q.yaml", yaml_text(query, "input"))], {"input": stream_schema(schemas)})
    assert not compilation.errors, "\n".join(finding.render() for finding in compilation.errors)
    return compilation.catalog.plans[0]


class Run:
    """An engine behind its selection."""

    def __init__(self, plan: Plan, schemas: Schemas, options: EngineOptions | None = None) -> None:
        self.plan, self.schemas, self.options = plan, schemas, options
        self.selection = Selection(Catalog.of((plan,)), "input")
        self.engine = StacksEngine(plan, options)

    def feed(self, events: Sequence[Event], watermark: int) -> Counter[Answer]:
        """Events in total order; what was found."""
        batch = event_batch(events, self.schemas)
        rows, masks = self.selection.select(batch).of_query(0)
        items = np.zeros(len(batch), dtype=np.uint64)
        items[rows] = masks
        matches, tally = self.engine.feed(batch, items, Watermarks(watermark))
        self.engine.validate()
        assert tally.matches == len(matches)
        return Counter(answers(self.plan, matches))

    def restart(self) -> None:
        """Snapshot, bytes, restore."""
        self.engine = StacksEngine.restore(self.plan, self.engine.snapshot(), self.options)
        self.engine.validate()


def answers(plan: Plan, matches: Matches) -> Iterable[Answer]:
    positive = [item.index for item in plan.positive]
    fields = {name: _cells(column) for name, column in matches.fields.items()}
    sources, offsets = matches.sources(), matches.offsets()
    for row in range(len(matches)):
        bound = tuple((item, int(sources[row, place]), int(offsets[row, place])) for place, item in enumerate(positive))
        yield bound, int(matches.time[row]), comparable({name: cells[row] for name, cells in fields.items()})


def expected(found: Iterable[Match], schemas: Schemas) -> Counter[Answer]:
    """The naive engine's matches in the same form."""
    return Counter((match.identity, match.time, comparable(return_fields(match, schemas))) for match in found)


def comparable(fields: dict[str, object]) -> tuple[tuple[str, object], ...]:
    """Fields by value: 1 is 1.0, NaN is itself; beyond 2**53 integers count as floats.

    Where an integer result of a feed leaves 64 bit, the engine returns the field of all matches of that feed as floats.
    """
    return tuple(sorted((name, by_value(value)) for name, value in fields.items()))


def by_value(value: object) -> object:
    """A value in the form in which values are compared."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return float(value) if isinstance(value, int) and abs(value) > 2**53 else value
