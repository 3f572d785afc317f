"""What is varied in each of the paper's experiments, which plans take part, and the streams.

Streams are the paper's: events of uniform types, one per millisecond, so that a window of W ms holds W events; attributes of uniform values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.engine import EngineOptions
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan
from ops.experiments.sase.kernels import ABSENT, BEHIND, DYNAMIC, MULTI, MULTI_WHOLE, PUSHED, SELECTED
from ops.experiments.sase.plans import Plan as PaperPlan
from ops.experiments.sase.plans import Stream, Switches, basic, joins, stacks

PUSHED_DOWN = EngineOptions()
NO_PAIS = EngineOptions(partitioned=False)
NO_WINDOW = EngineOptions(window_pushdown=False)
NO_PREDICATES = EngineOptions(predicate_pushdown=False)
WINDOW = 10_000
"""Events; the paper's, where it does not vary it."""
TYPES = 20
"""The paper's, where it does not vary them."""
BATCH = 8_192
PRODUCT = "product"
"""How curves of the product's engine begin; the others are the paper's plans (`plans`)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One point of a plot.

    Attributes:
        curve: which line of the plot.
        x: where on it.
        event, where: the query's; types are E0, E1, …; attributes a1 and a2 (partition attributes of the paper), v and w in [0, 1000).
        window: events, which are milliseconds.
        domain, domain_2: how many values a1 and a2 have.
        types: how many event types the stream has.
        by: the product's engine with these options, or a plan of the paper's for a sequence of this length.
        events: counted, behind a first window; fewer where a plan drowns.
    """

    curve: str
    x: float
    event: str
    where: str = "[a1]"
    window: int = WINDOW
    domain: int = 100
    domain_2: int = 20
    types: int = TYPES
    by: EngineOptions | PaperPlan = PUSHED_DOWN
    events: int = 200_000

    @property
    def length(self) -> int:
        """Items that are not negated.

        >>> Workload("", 0, "SEQ(E0 a, !(E6 n), E1 b)").length
        2
        """
        return self.event.count("E") - 1 - self.event.count("!")


@dataclass(frozen=True, slots=True)
class Family:
    """A plot: what is varied, in which workloads."""

    title: str
    varied: str
    workloads: Callable[[], Iterator[Workload]]
    normalized: bool = False
    """Against the best of its curve, as the paper's figures 11 and 12."""
    linear: bool = False


def seq(length: int) -> str:
    """The paper's template: ``SEQ(E0 e0, E1 e1, …)``."""
    return f"SEQ({', '.join(f'E{i} e{i}' for i in range(length))})"


EQUAL = "e0.a1 = e1.a1 AND e1.a1 = e2.a1"
EQUAL_2 = " AND e0.a2 = e1.a2 AND e1.a2 = e2.a2"
PAIS = stacks(Switches())
SELECTION = stacks(Switches(partitioned=False))
DOMAINS = (10, 30, 100, 300, 1_000, 10_000)


def _instead_of_equality(domain: int) -> int:
    """Event types that make sequences of three as rare as an equivalence test with so many values would: the paper's way to leave predicates out (section 5.1)."""
    return round(TYPES * domain ** (2 / 3))


def _basic() -> Iterator[Workload]:
    ais = stacks(Switches(partitioned=False, equal=False))
    for domain in (100, 300, 1_000, 3_000, 10_000):
        for curve, by in (("Basic", basic), ("AIS", ais), (PRODUCT, PUSHED_DOWN)):
            yield Workload(curve, domain, seq(3), "", types=_instead_of_equality(domain), by=by)


def _basic_windows() -> Iterator[Workload]:
    ais, types = stacks(Switches(partitioned=False, equal=False)), _instead_of_equality(10_000)
    for window in (10_000, 20_000, 50_000, 100_000):
        for curve, by in (("Basic", basic), ("AIS", ais), (PRODUCT, PUSHED_DOWN)):
            yield Workload(curve, window, seq(3), "", window=window, types=types, by=by, events=400_000)


def _domains() -> Iterator[Workload]:
    for domain in DOMAINS:
        yield Workload(f"{PRODUCT}: PAIS", domain, seq(3), domain=domain)
        yield Workload(f"{PRODUCT}: [a1] in construction", domain, seq(3), domain=domain, by=NO_PAIS, events=40_000)
        yield Workload(f"{PRODUCT}: [a1] on complete sequences", domain, seq(3), where=EQUAL, domain=domain, by=NO_PREDICATES, events=8_192)
        yield Workload("PAIS", domain, seq(3), domain=domain, by=PAIS)
        yield Workload("selection", domain, seq(3), domain=domain, by=SELECTION, events=8_192)


def _join_domains() -> Iterator[Workload]:
    both = EQUAL + EQUAL_2
    for domain in DOMAINS:
        for curve, where, by in (
            ("SASE, one test", "[a1]", PAIS),
            ("SASE, two tests", both, stacks(Switches(second=DYNAMIC))),
            ("join, one test", "[a1]", joins()),
            ("join, two tests", both, joins(second=True)),
            ("join in order, one test", "[a1]", joins(ordered=True)),
        ):
            yield Workload(curve, domain, seq(3), where, domain=domain, by=by, events=100_000)


def _windows() -> Iterator[Workload]:
    for window in (10_000, 20_000, 50_000, 100_000):
        for domain in (10_000, 300):
            yield Workload(f"{PRODUCT}: PAIS, {domain:,} values", window, seq(3), window=window, domain=domain)


def _pushed_windows() -> Iterator[Workload]:
    switched = {
        "in neither": Switches(window_in_scan=False, window_in_construction=False),
        "in the scan": Switches(window_in_construction=False),
        "in construction": Switches(window_in_scan=False),
        "in both": Switches(),
    }
    for window in (1_000, 3_000, 10_000, 30_000):
        for curve, switches in switched.items():
            yield Workload(curve, window, seq(3), window=window, by=stacks(switches), events=150_000)
        yield Workload(f"{PRODUCT}: pushed down", window, seq(3), window=window, events=150_000)
        yield Workload(f"{PRODUCT}: on complete sequences", window, seq(3), window=window, by=NO_WINDOW, events=150_000)


def _types() -> Iterator[Workload]:
    for types in (3, 5, 10, 20, 50, 100):
        yield Workload(f"{PRODUCT}: PAIS", types, seq(3), domain=300, types=types)
        yield Workload(
            f"{PRODUCT}: [a1] in construction",
            types,
            seq(3),
            domain=300,
            types=types,
            by=NO_PAIS,
            events=8_192 if types < 10 else 40_000,
        )


def _lengths() -> Iterator[Workload]:
    for length in range(2, 7):
        yield Workload(f"{PRODUCT}: PAIS", length, seq(length))
        yield Workload("SASE (PAIS)", length, seq(length), by=PAIS)
        yield Workload("join", length, seq(length), by=joins(), events=50_000)
        yield Workload("join in order", length, seq(length), by=joins(ordered=True), events=50_000)


def _second_test(values: int) -> Callable[[], Iterator[Workload]]:
    def workloads() -> Iterator[Workload]:
        joined = "[a1]" + EQUAL_2
        for domain in DOMAINS:
            for curve, where, by in (
                (f"{PRODUCT}: in the partition", "[a1] AND [a2]", PUSHED_DOWN),
                (f"{PRODUCT}: in construction", joined, PUSHED_DOWN),
                (f"{PRODUCT}: on complete sequences", joined, NO_PREDICATES),
                ("Dynamic Filtering", joined, stacks(Switches(second=DYNAMIC))),
                ("Multi-PAIS", joined, stacks(Switches(second=MULTI))),
                ("Multi-PAIS, whole intersections", joined, stacks(Switches(second=MULTI_WHOLE))),
                ("Selection", joined, stacks(Switches(second=SELECTED))),
            ):
                yield Workload(curve, domain, seq(3), where, domain=domain, domain_2=values, by=by, events=100_000)

    return workloads


def _simple() -> Iterator[Workload]:
    for share in (0.01, 0.03, 0.1, 0.3, 1.0):
        most = round(1000 * share)
        where = f"[a1] AND e0.v < {most}"
        yield Workload("in the scan", share, seq(3), where, by=stacks(Switches(most=most)))
        yield Workload("on complete sequences", share, seq(3), where, by=stacks(Switches(most=most, simple_in_scan=False)))
        yield Workload(PRODUCT, share, seq(3), where)


def _selectivities() -> Iterator[Workload]:
    # v and w are uniform in [0, 1000): e2.w - e3.v >= d holds with probability (1 - d / 1000)² / 2 for d >= 0
    for share in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
        where = f"[a1] AND e3.w - e2.v >= {round(1000 * (1 - (2 * share) ** 0.5))}"
        yield Workload(f"{PRODUCT}: pushed down", share, seq(4), where, domain=30, events=30_000)
        yield Workload(f"{PRODUCT}: on complete sequences", share, seq(4), where, domain=30, by=NO_PREDICATES, events=30_000)


def _negations() -> Iterator[Workload]:
    absent = f"SEQ(E0 e0, E1 e1, !(E{ABSENT} n), E2 e2)"
    shapes = {
        "no negation": seq(3),
        "in the middle": "SEQ(E0 e0, !(E3 n), E1 e1, E2 e2)",
        "at the start": "SEQ(!(E3 n), E0 e0, E1 e1, E2 e2)",
        "at the end": "SEQ(E0 e0, E1 e1, E2 e2, !(E3 n))",
    }
    for domain in DOMAINS:
        for name, event in shapes.items():
            yield Workload(f"{PRODUCT}: {name}", domain, event, domain=domain)
        yield Workload("no negation", domain, seq(3), domain=domain, by=PAIS)
        yield Workload("behind construction", domain, absent, domain=domain, by=stacks(Switches(negation=BEHIND)))
        yield Workload("in construction", domain, absent, domain=domain, by=stacks(Switches(negation=PUSHED)))
        yield Workload(f"{PRODUCT}: between the last two", domain, absent, domain=domain)


FAMILIES = {
    "basic": Family("Basic and active instance stacks, no predicates (paper: figure 8)", "values that types stand for", _basic),
    "basic-window": Family("Basic and active instance stacks (paper: figure 9)", "window, events", _basic_windows, linear=True),
    "domain-size": Family("Values of the equivalence attribute (paper: text of 5.2)", "values of a1", _domains),
    "window": Family("Window length", "window, events", _windows, linear=True),
    "window-push-down": Family("Windows pushed down (paper: text)", "window, events", _pushed_windows),
    "types": Family("Event types of the stream (paper: table 1)", "event types", _types),
    "length": Family("Length of the sequence (paper: figure 11)", "length", _lengths, normalized=True, linear=True),
    "join-domain-size": Family("SASE and joins (paper: figure 12)", "values of a1", _join_domains, normalized=True),
    "second-equivalence": Family("A second equivalence test, 20 values (paper: figure 10a)", "values of a1", _second_test(20)),
    "second-of-5": Family("A second equivalence test, 5 values (paper: figure 10b)", "values of a1", _second_test(5)),
    "simple": Family("A simple predicate (paper: text)", "share of events that satisfy it", _simple),
    "selectivity": Family("Selectivity of a predicate over two events", "share of pairs that satisfy it", _selectivities),
    "negation": Family("Negation (paper: text)", "values of a1", _negations),
}


def plan_of(workload: Workload) -> Plan:
    """The workload's query for the product's engine.

    Raises:
        ValueError: the query has an error.
    """
    attributes = tuple(Attribute(name, Kind.INTEGER) for name in ("a1", "a2", "v", "w"))
    schema = StreamSchema("s", tuple(EventType(f"E{i}", attributes) for i in range(ABSENT + 1)))
    where = f'where: "{workload.where}"\n' if workload.where else ""
    text = f'name: q\nfrom: s\nevent: "{workload.event}"\n{where}within: {workload.window} ms\nreturn: {{first: e0.time, last: e1.time}}\n'
    compilation = compile_texts([("q.yaml", text)], {"s": schema})
    if compilation.errors:
        raise ValueError(compilation.errors[0].render())
    return compilation.catalog.plans[0]


def stream_of(workload: Workload, count: int) -> EventBatch:
    """Events."""
    random = np.random.default_rng(7)
    types = random.integers(0, workload.types, count).astype(np.int32)
    sizes = {"a1": workload.domain, "a2": workload.domain_2, "v": 1000, "w": 1000}
    columns = {name: Column(Kind.INTEGER, random.integers(0, size, count)) for name, size in sizes.items()}
    line = np.arange(count, dtype=np.int64)
    dictionary = Dictionary.of([f"E{i}".encode() for i in range(workload.types)])
    return EventBatch(line, np.zeros(count, np.int64), line, Column(Kind.STRING, types, None, dictionary), columns)


def masks_of(plan: Plan, batch: EventBatch) -> NDArray[np.uint64]:
    """Items that each event can be, as bits: what selection does in front of the product's engine (here: types and ``<``)."""
    assert batch.type.dictionary is not None, "types are texts"
    names = [entry.decode() for entry in batch.type.dictionary.entries()]
    of_type = np.array([sum(1 << item.index for item in plan.items if name in item.types) for name in names], np.uint64)
    masks = of_type[batch.type.values]
    for item in plan.items:
        for test in item.tests:
            assert test.operator == "<", "the only one of these workloads"
            masks[batch.columns[test.attribute].values >= test.values[0]] &= ~np.uint64(1 << item.index)
    return masks


def plain_stream(batch: EventBatch) -> Stream:
    """The same events for the paper's plans."""
    return Stream(batch.type.values.astype(np.int64), *(batch.columns[name].values for name in ("a1", "a2", "v")))


def slices(batch: EventBatch, masks: NDArray[np.uint64], first: int, stop: int) -> list[tuple[EventBatch, NDArray[np.uint64]]]:
    """The rows ``first <= row < stop`` as batches (views)."""
    parts = []
    for start in range(first, stop, BATCH):
        part = slice(start, min(start + BATCH, stop))
        columns = {name: Column(c.kind, c.values[part], None, c.dictionary) for name, c in batch.columns.items()}
        kinds = Column(batch.type.kind, batch.type.values[part], None, batch.type.dictionary)
        parts.append((EventBatch(batch.time[part], batch.source[part], batch.offset[part], kinds, columns), masks[part]))
    return parts
