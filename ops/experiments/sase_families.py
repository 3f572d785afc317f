"""The workload families of the SASE paper (Wu, Diao, Rizvi, SIGMOD 2006, section 6) on this project's stacks evaluator.

    python -m ops.experiments.sase_families FOLDER [--only NAME] [--events N] [--repeats N]

Writes a plot per family (PNG) and all figures (``figures.json``) to FOLDER, and prints them. Streams are the paper's: events of uniform types, one per
millisecond, so that a window of W ms holds W events; attributes of uniform values. A figure is million events per second that the processor worked on it
(a shared machine's clock says less), one core, the best of the repeats, after a first window that is not counted; matches are built as columns. The
optimisations are switched by `EngineOptions`; "on complete sequences" is the paper's selection operator behind sequence construction.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from app.cep.engine import EngineOptions, Watermarks
from app.cep.stacks.engine import StacksEngine
from app.events.batch import Column, Dictionary, EventBatch
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan

PUSHED = EngineOptions()
NO_PAIS = EngineOptions(partitioned=False)
NO_WINDOW = EngineOptions(window_pushdown=False)
NO_PREDICATES = EngineOptions(predicate_pushdown=False)
WINDOW = 10_000
"""Events; the paper's, where it does not vary it."""
TYPES = 20
"""The paper's, where it does not vary them."""
BATCH = 8_192


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
    options: EngineOptions = PUSHED
    events: int = 200_000


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured at a point."""

    family: str
    curve: str
    x: float
    events: int
    matches_per_event: float
    m_events_per_s: float


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


def _domains() -> Iterator[Workload]:
    for domain in (10, 30, 100, 300, 1_000, 10_000):
        yield Workload("PAIS", domain, seq(3), domain=domain)
        yield Workload("[a1] in construction", domain, seq(3), domain=domain, options=NO_PAIS, events=40_000)
        yield Workload("[a1] on complete sequences", domain, seq(3), domain=domain, where=EQUAL, options=NO_PREDICATES, events=8_192)


def _windows() -> Iterator[Workload]:
    for window in (10_000, 20_000, 50_000, 100_000):
        for domain in (10_000, 300):
            yield Workload(f"PAIS, {domain:,} values", window, seq(3), window=window, domain=domain)


def _pushed_windows() -> Iterator[Workload]:
    for window in (1_000, 3_000, 10_000, 30_000):
        yield Workload("window pushed down", window, seq(3), window=window, domain=100, events=150_000)
        yield Workload("window on complete sequences", window, seq(3), window=window, domain=100, options=NO_WINDOW, events=150_000)


def _types() -> Iterator[Workload]:
    for types in (3, 5, 10, 20, 50, 100):
        yield Workload("PAIS", types, seq(3), domain=300, types=types)
        yield Workload(
            "[a1] in construction", types, seq(3), domain=300, types=types, options=NO_PAIS, events=8_192 if types < 10 else 40_000
        )


def _lengths() -> Iterator[Workload]:
    for length in range(2, 7):
        yield Workload("PAIS", length, seq(length), domain=100)


def _second_test() -> Iterator[Workload]:
    joined = "[a1] AND e0.a2 = e1.a2 AND e1.a2 = e2.a2"
    for domain in (10, 30, 100, 300, 1_000, 10_000):
        yield Workload("in the partition", domain, seq(3), "[a1] AND [a2]", domain=domain)
        yield Workload("in construction (dynamic filtering)", domain, seq(3), joined, domain=domain, events=100_000)
        yield Workload("on complete sequences (selection)", domain, seq(3), joined, domain=domain, options=NO_PREDICATES, events=100_000)


def _selectivities() -> Iterator[Workload]:
    # v and w are uniform in [0, 1000): e2.w - e3.v >= d holds with probability (1 - d / 1000)² / 2 for d >= 0
    for share in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01):
        where = f"[a1] AND e3.w - e2.v >= {round(1000 * (1 - (2 * share) ** 0.5))}"
        yield Workload("pushed down", share, seq(4), where, domain=30, events=30_000)
        yield Workload("on complete sequences", share, seq(4), where, domain=30, options=NO_PREDICATES, events=30_000)


def _negations() -> Iterator[Workload]:
    shapes = {
        "no negation": "SEQ(E0 e0, E1 e1, E2 e2)",
        "in the middle": "SEQ(E0 e0, !(E3 n), E1 e1, E2 e2)",
        "at the start": "SEQ(!(E3 n), E0 e0, E1 e1, E2 e2)",
        "at the end": "SEQ(E0 e0, E1 e1, E2 e2, !(E3 n))",
    }
    for domain in (10, 30, 100, 300, 1_000, 10_000):
        for name, event in shapes.items():
            yield Workload(name, domain, event, domain=domain)


FAMILIES = {
    "domain-size": Family("Values of the equivalence attribute (paper: figures 8 and 12)", "values of a1", _domains),
    "window": Family("Window length (paper: figure 9)", "window, events", _windows, linear=True),
    "window-push-down": Family("Windows pushed down (paper: text)", "window, events", _pushed_windows),
    "types": Family("Event types of the stream (paper: table 1)", "event types", _types),
    "length": Family("Length of the sequence (paper: figure 11)", "length", _lengths, normalized=True, linear=True),
    "second-equivalence": Family("A second equivalence test, 20 values (paper: figures 10 and 12)", "values of a1", _second_test),
    "selectivity": Family("Selectivity of a predicate over two events", "share of pairs that satisfy it", _selectivities),
    "negation": Family("Negation (paper: text)", "values of a1", _negations),
}


def plan_of(workload: Workload) -> Plan:
    """The workload's query for the stacks evaluator."""
    attributes = tuple(Attribute(name, Kind.INTEGER) for name in ("a1", "a2", "v", "w"))
    schema = StreamSchema("s", tuple(EventType(f"E{i}", attributes) for i in range(max(workload.types, 6))))
    text = (
        f'name: q\nfrom: s\nevent: "{workload.event}"\nwhere: "{workload.where}"\nwithin: {workload.window} ms\n'
        "return: {first: e0.time, last: e1.time}\n"
    )
    compilation = compile_texts([("q.yaml", text)], {"s": schema})
    if compilation.errors:
        raise ValueError(compilation.errors[0].render())
    return compilation.catalog.plans[0]


def stream_of(workload: Workload, plan: Plan, count: int) -> tuple[EventBatch, np.ndarray]:
    """Events, and the mask of items that each can be (uint64)."""
    random = np.random.default_rng(7)
    types = random.integers(0, workload.types, count).astype(np.int32)
    names = [f"E{i}" for i in range(workload.types)]
    sizes = {"a1": workload.domain, "a2": workload.domain_2, "v": 1000, "w": 1000}
    columns = {name: Column(Kind.INTEGER, random.integers(0, size, count)) for name, size in sizes.items()}
    mask_of_type = np.array([sum(1 << item.index for item in plan.items if name in item.types) for name in names], np.uint64)
    line = np.arange(count, dtype=np.int64)
    dictionary = Dictionary.of([name.encode() for name in names])
    batch = EventBatch(line, np.zeros(count, np.int64), line, Column(Kind.STRING, types, None, dictionary), columns)
    return batch, mask_of_type[types]


def slices(batch: EventBatch, masks: np.ndarray, first: int, stop: int) -> list[tuple[EventBatch, np.ndarray]]:
    """The rows ``first <= row < stop`` as batches (views)."""
    parts = []
    for start in range(first, stop, BATCH):
        part = slice(start, min(start + BATCH, stop))
        columns = {name: Column(c.kind, c.values[part], None, c.dictionary) for name, c in batch.columns.items()}
        kinds = Column(batch.type.kind, batch.type.values[part], None, batch.type.dictionary)
        parts.append((EventBatch(batch.time[part], batch.source[part], batch.offset[part], kinds, columns), masks[part]))
    return parts


def once(workload: Workload, events: int | None = None) -> tuple[float, int, int]:
    """Seconds of the processor, events and matches of one run with a fresh engine, behind the first window."""
    count, warm = min(workload.events, events or workload.events), workload.window
    plan = plan_of(workload)
    batch, masks = stream_of(workload, plan, warm + count)
    engine = StacksEngine(plan, workload.options)
    for part, some in slices(batch, masks, 0, warm):
        engine.feed(part, some, Watermarks(int(part.time[-1]) + 1))
    parts, found = slices(batch, masks, warm, warm + count), 0
    begin = time.process_time()
    for part, some in parts:
        matches, _ = engine.feed(part, some, Watermarks(int(part.time[-1]) + 1))
        found += len(matches)
    return time.process_time() - begin, count, found


def measure(name: str, events: int | None, repeats: int) -> list[Figure]:
    """The figures of a family, after a warm-up that loads or compiles the kernels."""
    figures = []
    for number, workload in enumerate(FAMILIES[name].workloads()):
        if not number:
            once(workload, 1000)
        runs = [once(workload, events) for _ in range(repeats)]
        seconds, count, found = min(runs)
        figures.append(Figure(name, workload.curve, workload.x, count, found / count, count / max(seconds, 1e-9) / 1e6))
    return figures


def plot(name: str, figures: list[Figure], folder: Path) -> None:
    """One line per curve, throughput over what is varied."""
    family = FAMILIES[name]
    canvas, axes = plt.subplots(figsize=(7, 4.5))
    for curve in dict.fromkeys(figure.curve for figure in figures):
        points = [figure for figure in figures if figure.curve == curve]
        best = max(point.m_events_per_s for point in points) if family.normalized else 1.0
        axes.plot([point.x for point in points], [point.m_events_per_s / best for point in points], marker="o", label=curve)
    if not family.linear:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_title(family.title, fontsize=10)
    axes.set_xlabel(family.varied)
    axes.set_ylabel("normalized throughput" if family.normalized else "M events/s")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    canvas.tight_layout()
    canvas.savefig(folder / f"{name}.png", dpi=110)
    plt.close(canvas)


def main() -> None:
    """Measures, prints, plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--events", type=int, help="at most so many per run")
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    everything: list[Figure] = []
    for name, family in FAMILIES.items():
        if arguments.only not in name:
            continue
        print(f"{name}: {family.title}")
        figures = measure(name, arguments.events, arguments.repeats)
        for one in figures:
            print(f"  {one.curve:38} {one.x:>10g} {one.m_events_per_s:9.3f} M/s {one.matches_per_event:10.4f} matches/event")
        plot(name, figures, arguments.folder)
        everything += figures
    (arguments.folder / "figures.json").write_text(json.dumps([asdict(one) for one in everything], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
