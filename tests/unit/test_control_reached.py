"""Events that are late because time went on while their topic partition was silent: the ingress finds them late, once, and buckets find no others."""

from __future__ import annotations

import json

import numpy as np
import pytest

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.control.messages.directives import Directive
from app.control.messages.reached import reached
from app.events.batch import EventBatch, take
from app.files.gathering import parse_events
from app.query.compile import compile_texts
from app.query.resolved.vocabulary import Streams

TWO_GROUPS = """
name: one
event: SEQ(A a, B b)
where: "[k]"
within: 1 s
---
name: two
event: SEQ(A a, B b)
where: "[v]"
within: 1 s
"""
SOURCES = frozenset((0,))
SILENT_MS, LATENESS_MS = 5000, 200


class World:
    """The ingress and some buckets, batch by batch; the second batch finds the only topic partition silent, and the clock has carried time on."""

    def __init__(self) -> None:
        lines = [{"type": "AB"[k % 2], "time": 1000 + k if k < 10 else 4650 + 10 * k, "k": k % 7, "v": k % 5} for k in range(20)]
        file = parse_events("".join(json.dumps(line) + "\n" for line in lines).encode())
        compiled = compile_texts([("q.yaml", TWO_GROUPS)], Streams(everything=file.schema))
        self.batch, self.catalog = file.batch, compiled.catalog
        self.stream = self.catalog.plans[0].streams[0]
        self.rules = TimeRules(self.stream, LATENESS_MS)
        self.plan = IngressPlan(self.catalog, self.rules, 4)
        self.buckets = [Bucket(self.catalog, [self.rules], number, ("t",)) for number in range(4)]

    def step(self, batch: EventBatch, progress: Progress) -> tuple[int, int, dict[int, int]]:
        """Events that were late at the ingress, those that buckets found late, and the greatest times afterwards."""
        ingested = self.plan.ingest(batch, progress)
        times = {**progress.greatest_times, **ingested.judgement.greatest_times}
        later, found = Progress(times, progress.sources, progress.idle, progress.stream_times), 0
        for number, bucket in enumerate(self.buckets):
            found += len(bucket.advance([packed for own, packed in ingested.packed() if own == number], later).late)
        return len(ingested.late), found, times

    def run(self, *, told: bool) -> tuple[int, int]:
        """What is late in the third batch, when the topic partition speaks again."""
        *_, times = self.step(take(self.batch, np.arange(10)), Progress({}, SOURCES))
        silent = Directive(1, greatest_times=times, sources=(0,), idle=(0,), stream_times={self.stream: SILENT_MS})
        self.step(take(self.batch, np.arange(0)), Progress(times, SOURCES, frozenset((0,)), silent.stream_times))
        come = reached(silent, Progress(times, SOURCES), {self.stream: frozenset((0,))}) if told else {}
        at_ingress, in_buckets, _ = self.step(take(self.batch, np.arange(10, 20)), Progress(times, SOURCES, reached=come))
        return at_ingress, in_buckets


def test_what_is_late_is_found_late_once() -> None:
    times = World().batch.time[10:]
    late = int((times < SILENT_MS - LATENESS_MS).sum())
    assert 0 < late < 10
    assert World().run(told=True) == (late, 0)
    assert World().run(told=False) == (0, 2 * late), "a bucket of each group finds it"


@pytest.mark.parametrize("before", [None, Directive(1, sources=(0,))])
def test_where_nobody_was_idle_there_is_nothing_to_tell(before: Directive | None) -> None:
    assert reached(before, Progress({0: 1000}, SOURCES), {"s": frozenset((0,))}) == {}


def test_what_was_reached_is_told_until_the_stream_has_come_there_by_itself() -> None:
    streams, sources = {"s": frozenset((0,))}, (0, 1)
    silent = Directive(1, sources=sources, idle=(0, 1), stream_times={"s": 5000})
    now = Progress({0: 1000, 1: 900}, frozenset(sources))
    assert reached(silent, now, streams) == {"s": 5000}
    second = Directive(2, sources=sources, reached={"s": 5000})
    assert reached(second, Progress({0: 6000, 1: 900}, frozenset(sources)), streams) == {"s": 5000}
    assert reached(second, Progress({0: 6000, 1: 5000}, frozenset(sources)), streams) == {}
    half = Directive(1, sources=sources, idle=(1,))
    assert reached(half, now, streams) == {"s": 1000}, "the one that was silent holds nothing up that is past"
    assert reached(Directive(1), Progress(), streams) == {}


def test_a_directive_keeps_it() -> None:
    directive = Directive(2, reached={"s": 5000})
    assert Directive.from_json(directive.to_json()) == directive
