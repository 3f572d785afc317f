"""What judging and remembering cost is a cost of the queries that are judged: by a clock that only these parts turn on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from app.audit.memory import Memory
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import Gate, IngressPlan
from app.bucket.rematch import Rematch
from app.files.gathering import parse_events
from app.query.compile import compile_texts
from app.query.resolved.vocabulary import Streams

QUERIES = """
name: judged
event: SEQ(A a, !(B b), C c)
where: "[k]"
within: 1 s
shedding: {shedder: random, latency_bound: 1 s}
---
name: plain
event: SEQ(A a, C c)
where: "[k]"
within: 1 s
"""
KINDS = "ABCABCABC"


class Ticking:
    """Turns on by ten when a query is asked again, by one when something is remembered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.asked, self.remembered = 0, 0, 0
        added, asked = Memory.add, Rematch.__call__

        def asking(rematch, batch, bitmaps):
            self.now, self.asked = self.now + 10, self.asked + 10
            return asked(rematch, batch, bitmaps)

        def remembering(memory, *arguments):
            self.now, self.remembered = self.now + 1, self.remembered + 1
            added(memory, *arguments)

        monkeypatch.setattr(Rematch, "__call__", asking)
        monkeypatch.setattr(Memory, "add", remembering)


def shed_b(batch, selected):
    """Drops the events that could refute something."""
    bitmaps = selected.bitmaps.copy()
    bitmaps[np.isin(batch.offset[selected.relevant], [k for k, kind in enumerate(KINDS) if kind == "B"])] = 0
    return selected.with_bitmaps(bitmaps).without_empty()


def costs(clock: Ticking, gate: Gate | None) -> tuple[Counter[str], int]:
    """By query, and what of it there is only because it sheds."""
    lines = "".join(f'{{"type": "{kind}", "time": {k}, "k": 1}}\n' for k, kind in enumerate(KINDS)).encode()
    file = parse_events(lines)
    compiled = compile_texts([("q.yaml", QUERIES)], Streams(everything=file.schema))
    assert not compiled.errors
    rules = TimeRules(compiled.catalog.plans[0].streams[0], 1_000_000)
    progress = Progress({}, frozenset((0,)), closing=True)
    ingested = IngressPlan(compiled.catalog, rules, 1).ingest(file.batch, progress, gate)
    bucket, spent, judging = Bucket(compiled.catalog, [rules], 0, ("t",)), Counter(), 0
    output = bucket.advance([packed for _, packed in ingested.packed()], progress, clock=lambda: clock.now)
    for found in output.found:
        spent[compiled.catalog.plans[found.query].name] += found.cost_ns
        judging += found.judging_ns
    return spent, judging


def test_judging_and_remembering_are_costs_of_the_query_that_is_judged(monkeypatch):
    clock = Ticking(monkeypatch)
    spent, judging = costs(clock, shed_b)
    assert spent == {"judged": clock.asked + clock.remembered, "plain": 0}
    assert judging == spent["judged"], "remembering as well: it is no work for what was kept"
    assert clock.asked >= 10
    assert clock.remembered >= 2, "what was fed, and what was shed of it"


def test_where_nothing_is_shed_nobody_is_asked_again(monkeypatch):
    clock = Ticking(monkeypatch)
    assert costs(clock, None) == ({"judged": clock.remembered, "plain": 0}, 0)
    assert clock.asked == 0
