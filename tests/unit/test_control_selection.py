from __future__ import annotations

from pathlib import Path

import numpy as np

from app.asc.selection import Selection
from app.asc.sequence import Sequence
from app.config.settings import Selection as SelectionSettings
from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Directive, Frozen, SelectionOrders
from app.control.messages.reports import SelectionTally, StageReport
from app.control.messages.totals import total
from app.control.selection import Sequences, packed, sampled_rows, unpacked
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Kind
from app.query.plan import Catalog, ConstantTest, Item, Plan
from app.storage.posix import PosixStore


def catalog(*bounds: tuple[str, int]) -> Catalog:
    """One query: an event whose attributes are all below their bounds."""
    tests = tuple(ConstantTest(name, Kind.INTEGER, "<", (bound,)) for name, bound in bounds)
    return Catalog.of((Plan("q", 1, "", (), 1.0, ("s",), (Item(0, None, (), tests=tests),), (), (), None, (), ()),))


CATALOG = catalog(("a", 90), ("b", 10), ("c", 50))
A, B, C = range(3)


def events(number: int, seed: int = 1) -> EventBatch:
    random = np.random.default_rng(seed)
    columns = {name: Column(Kind.INTEGER, random.integers(0, 100, number)) for name in "abc"}
    places = np.arange(number)
    return EventBatch(
        places, places * 0, places, Column(Kind.STRING, np.zeros(number, dtype=np.int32), None, Dictionary.of([b"T"])), columns
    )


def task(batch: EventBatch, orders: SelectionOrders) -> SelectionTally:
    """What a task of the ingress does and reports."""
    selection = Selection(CATALOG, "s")
    selected = selection.select(batch, orders.sequence)
    rows = sampled_rows(len(batch), orders.sample)
    samples = (packed(selection.regions(batch, rows)),) if len(rows) else ()
    return SelectionTally("s", len(batch), len(batch) - len(selected.relevant), selected.evaluated, samples)


def total_of(*tallies: SelectionTally) -> dict[str, SelectionTally]:
    reports = [StageReport(0, "ingress", part, selection=(tally,)) for part, tally in enumerate(tallies)]
    return dict(total(0, reports).selection)  # packed on the way, as reports of tasks are


def test_the_order_follows_what_tasks_saw() -> None:
    sequences = Sequences(CATALOG, SelectionSettings(sample=500))
    first = sequences.orders()["s"]
    assert (first.sequence.order, first.sample) == ((A, B, C), 500)
    slow = task(events(1000), first)
    assert sequences.observe(total_of(slow)) == ["s"]
    second = sequences.orders()["s"]
    assert (second.sequence.order, second.sample) == ((B, C, A), 0)
    assert task(events(1000), second).evaluated < slow.evaluated
    assert task(events(1000), second).pruned == slow.pruned


def test_samples_of_several_tasks_and_batches_are_put_together() -> None:
    sequences = Sequences(CATALOG, SelectionSettings(sample=500))
    assert sequences.observe(total_of(task(events(100), sequences.orders()["s"]), task(events(150, 2), sequences.orders()["s"]))) == []
    assert sequences.orders()["s"].sample == 250
    assert sequences.observe(total_of(task(events(300, 3), sequences.orders()["s"]))) == ["s"]


def test_another_order_is_looked_for_when_the_share_of_dropped_events_changes() -> None:
    sequences = Sequences(CATALOG, SelectionSettings(sample=10, period=100, threshold=0.5))
    sequences.observe(total_of(task(events(50), sequences.orders()["s"])))
    seen = [
        (SelectionTally("s", 60, 30), 0),  # the period is not over
        (SelectionTally("s", 60, 30), 0),  # half of them: the first ratio of this order
        (SelectionTally("s", 100, 70), 0),  # + 40 %
        (SelectionTally("s", 100, 75), 10),  # + 50 %
    ]
    for tally, sample in seen:
        sequences.observe({"s": tally})
        assert sequences.orders()["s"].sample == sample


def test_fixed_order_never_changes() -> None:
    sequences = Sequences(CATALOG, SelectionSettings(mode="fixed"))
    assert sequences.orders()["s"] == SelectionOrders(Sequence.fixed((A, B, C)), 0)
    assert sequences.observe({"s": SelectionTally("s", 10**9, 1)}) == []


def test_a_restarted_driver_goes_on_with_the_order_that_it_had() -> None:
    sequences = Sequences(CATALOG, SelectionSettings(sample=500))
    sequences.observe(total_of(task(events(1000), sequences.orders()["s"])))
    restarted = Sequences(CATALOG, SelectionSettings(sample=500))
    restarted.restore(sequences.snapshot())
    assert restarted.orders() == sequences.orders()
    other = Sequences(catalog(("a", 90), ("b", 10)), SelectionSettings(sample=500))
    other.restore(sequences.snapshot())
    assert other.orders()["s"].sequence.order == (A, B)


def test_the_orders_of_a_batch_are_those_of_its_first_request(tmp_path: Path) -> None:
    sequences = Sequences(CATALOG, SelectionSettings(sample=100, mode="hybrid"))

    def decide(batch: int, times: object) -> Frozen:
        return Frozen(Directive(batch, selection=sequences.orders()), {"selection": sequences.snapshot()})

    log = BatchLog(PosixStore(tmp_path))
    first = log.directive(7, decide)
    log.await_directive()
    done = task(events(200), first.selection["s"])
    sequences.observe(total_of(done))
    assert sequences.orders() != first.selection
    again = BatchLog(PosixStore(tmp_path)).directive(7, decide)
    assert again == first
    assert task(events(200), again.selection["s"]) == done  # the same way, construct by construct


def test_samples_survive_the_way_through_a_report() -> None:
    regions = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert unpacked(packed(regions), 3).tolist() == regions.tolist()
    assert unpacked(packed(regions), 5) is None
