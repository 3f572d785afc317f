"""The gSPICE paper's experiments (E1 to E7 of the specification, section 1.10) on generated streams, GF-2015 and POR-SUI-2019.

    nice -n 10 python -m ops.experiments.gspice FOLDER [--quick] [--only NAME] [--seeds N]

Writes plots (PNG, SVG), all points (``gspice.json``), and tables with verdicts (``gspice.md``), which it prints as well.

Two modes. *Fixed*: the share of events that exceeds the capacity is dropped from the first event on: what a shedder chooses, apart from how much. *Queue*: virtual time, the detector asks
for what keeps the queue at 80 % of the bound of 1 s; the operator manages 10,000 events per second, so the free buffer holds 2,000 events, and the queue stands at the safe
length when the first event arrives. ``E1-capacity`` shows what other capacities do. *Charged*: a queue in which decisions cost their measured share of the operator's measured work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from app.evaluation.contest import Contest, Terms
from app.events.batch import EventBatch
from app.query.plan import Plan
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.shedding_command import Paper, Size, command
from ops.experiments.shedding_figures import Plot, Point
from ops.experiments.shedding_runs import RATES, candidates, charged, contest_of, judged, shedders, under
from ops.experiments.shedding_verdicts import gspice_verdicts, own_table
from shedding.events.gspice import PANE
from shedding.interface import Method
from shedding.panes import Pane
from shedding.registry import method

CAPACITY = 10_000.0
PANES = (5, 10, 20, 40, 80, 320)
EVERY_KEY = "gspice, every key"
STOCK_PANES = (10, 50, 100, 400, 800, 1600)
CREDITS = {"gspice": 1.0, "gspice, no credit": 0.0}
USUAL = ("oracle", "gspice", "espice", "bl", "random")


FULL = Size(10, 30_000, 4_000)  # with six types twice as many to learn from
QUICK = Size(3, 20_000, 3_000)
FEW = 3
"""Seeds where the processor's clock is read, or where only the size of the buffer is varied."""


def every_key(pane: Pane = PANE) -> Method[Any]:
    """gSPICE as printed: every key that was ever observed has its own utility. Ours leaves out what was observed once."""
    return method("gspice", pane=pane, least=1)


def fixed(seed: int) -> Terms:
    """What exceeds the capacity is dropped."""
    return Terms(seed=seed, fixed=True)


def queued(seed: int, capacity: float = CAPACITY) -> Terms:
    """The detector looks at the queue."""
    return Terms(seed=seed, capacity=capacity, overloaded=True)


def letters(name: str, size: Size, seed: int, learning: int | None = None) -> tuple[EventBatch, float]:
    """A synthetic stream and the share of it that is for learning."""
    learn = learning or size.learning * (2 if len(data.MEAN_GAPS[name]) > 3 else 1)
    return data.letters(name, learn + size.judging, seed), learn / (learn + size.judging)


SYNTHETIC: dict[str, tuple[Callable[[], Plan], str]] = {
    "Q1": (queries.g1, "DS1"),
    "Q2": (queries.g2, "DS5"),
    "Q3": (queries.g3, "DS1"),
}


def e1(size: Size, seed: int) -> Iterator[Point]:
    """E1, E2: quality over the rate on synthetic streams, in fixed mode, and in virtual time (E7 as well)."""
    for name, (plan, stream) in SYNTHETIC.items():
        contest = contest_of(plan(), *letters(stream, size, seed), fixed(seed))
        own = () if name == "Q2" else ("prefix",)  # it knows sequences, not one of two
        yield from judged(contest, f"E1-{name}", {**shedders("gspice", "espice", "bl", *own), EVERY_KEY: every_key()}, RATES)
        more = {"espice, row": method("espice", variant="row")} if name == "Q1" else {}
        yield from judged(contest, f"E1-{name}", {**shedders("oracle", "random"), **more}, (1.2, 2.0))
        yield from judged(under(contest, queued(seed)), f"E1-queue-{name}", shedders("gspice"), RATES)
        yield from judged(under(contest, queued(seed)), f"E1-queue-{name}", shedders("espice", "bl", *own), (1.2, 2.0))
        if name == "Q1" and seed < FEW:
            yield from _capacities(contest)


def _capacities(contest: Contest) -> Iterator[Point]:
    """Q1 in virtual time by the operator's capacity: small buffers let the asked ratio fluctuate. Then with decisions that take their time (figure 4d)."""
    seed = contest.terms.seed
    for capacity in (500, 1_000, 2_000, 4_000, 10_000, 20_000):
        yield from judged(under(contest, queued(seed, capacity)), "E1-capacity", shedders("gspice", "espice"), (2.0,), capacity)
    taking_part = shedders("gspice", "gspice-tree", "gspice-forest", "espice", "bl")
    yield from judged(under(contest, charged(contest, queued(seed))), "E1-charged", taking_part, (1.4, 2.0))


PANE_STOCKS = Pane(events=50)


def four_symbols(seed: int) -> tuple[EventBatch, tuple[str, ...]]:
    """The four symbols of GF-2015 that move by 0.1 % most often on the first three days: their events, and their names."""
    prices, minutes, names = data.gf_2015()
    everything = data.moved(prices, minutes, list(names), 0.001, seed)
    learned = everything.type.values[: int(0.6 * len(everything))]
    most = sorted(np.argsort(-np.bincount(learned, minlength=len(names)), kind="stable")[:4].tolist())
    four = tuple(names[k] for k in most)
    return data.moved(prices[:, most], minutes, list(four), 0.001, seed), four


def _stocks(size: Size, seed: int) -> Iterator[tuple[str, EventBatch, tuple[str, ...]]]:
    """Streams of the quotes that the queries name: what no item takes, selection keeps from the operator."""
    if data.recording(data.GF_2015) is not None:
        yield "GF-2015", *four_symbols(seed)
    prices, minutes, made = data.stock_prices(4, size.judging, seed)
    yield "generated", data.moved(prices, minutes, made, 0.001, seed), tuple(made)


def e3(size: Size, seed: int) -> Iterator[Point]:
    """E3: stocks; of a recording, the seed only spreads the events of a minute. ``x2``: only moves of twice the threshold count."""
    own = {name: method("gspice", pane=PANE_STOCKS, abandoned_credit=credit) for name, credit in CREDITS.items()}
    for stream, batch, four in _stocks(size, seed):
        for figure, plan in (
            ("Q4", queries.g4(four)),
            ("Q4-x2", queries.g4(four, 2)),
            ("Q5", queries.g5(four)),
            ("Q5-x2", queries.g5(four, 2)),
        ):
            taking_part = {**shedders(*USUAL, "prefix"), **own} if "Q5" in figure else {**shedders(*USUAL), "gspice": own["gspice"]}
            yield from judged(contest_of(plan, batch, 0.6, fixed(seed)), f"E3-{figure}-{stream}", taking_part, RATES)


def e4(size: Size, seed: int) -> Iterator[Point]:
    """E4: soccer."""
    own = {**shedders(*USUAL), "gspice": method("gspice", pane=Pane(events=200))}
    streams = {"generated": lambda: data.duel_events(*data.soccer_positions(size.judging // 4, seed), seed)}
    if data.recording(data.POR_SUI_2019) is not None:
        streams["POR-SUI-2019"] = lambda: data.duel_events(*data.por_sui_2019(), seed)
    for name, stream in streams.items():
        yield from judged(contest_of(queries.g6(), stream(), 0.75, fixed(seed)), f"E4-{name}", own, RATES)


def e5(size: Size, seed: int) -> Iterator[Point]:
    """E5: length of the predecessor pane at 180 %."""
    contest = contest_of(queries.g1(), *letters("DS1", size, seed), fixed(seed))
    for length in PANES:
        own = {"gspice": method("gspice", pane=Pane(events=length)), EVERY_KEY: every_key(Pane(events=length))}
        yield from judged(contest, "E5-Q1", own, (1.8,), length)
    for stream, batch, four in _stocks(size, seed):
        contest = contest_of(queries.g4(four, 2), batch, 0.6, fixed(seed))
        for length in STOCK_PANES:
            own = {"gspice": method("gspice", pane=Pane(events=length)), EVERY_KEY: every_key(Pane(events=length))}
            yield from judged(contest, f"E5-Q4-{stream}", own, (1.8,), length)


def e6(size: Size, seed: int) -> Iterator[Point]:
    """E6: distribution of types, DS5 to DS8, at 140 %."""
    for number in (5, 6, 7, 8):
        contest = contest_of(queries.g2(), *letters(f"DS{number}", size, seed, size.learning), fixed(seed))
        taking_part = {**shedders("gspice", "gspice-tree", "gspice-forest", "bl"), EVERY_KEY: every_key()}
        yield from judged(contest, "E6", taking_part, (1.4,), number)
        if seed < FEW:
            models = shedders("gspice", "gspice-tree", "gspice-forest")
            yield from judged(under(contest, charged(contest, queued(seed))), "E6-charged", models, (1.4,), number)


SLOW = 1_000.0
"""Events per second in virtual time on recordings: as they have some thousand events, a faster operator's queue would hold all of them."""


def own_methods(size: Size, seed: int) -> Iterator[Point]:
    """`prefix` where the paper's pattern is one of two sequences, which it does not know: on the first of them, in both modes, on the events that its items take."""
    streams = {"Q2-first": (queries.g1(), data.letters("DS5", 2 * (size.learning + size.judging), seed), queued(seed), Pane(events=10))}
    for stream, batch, four in _stocks(size, seed):
        streams[f"Q4-x2-first-{stream}"] = (queries.g4_rising(four, 2), batch, queued(seed, SLOW), PANE_STOCKS)
    players = {"generated": lambda: data.soccer_positions(size.judging // 4, seed), "POR-SUI-2019": data.por_sui_2019}
    for name, positions in players.items():
        if name == "generated" or data.recording(data.POR_SUI_2019) is not None:
            streams[f"Q6-first-{name}"] = (queries.p3(3), data.duel_events(*positions(), seed), queued(seed, SLOW), Pane(events=200))
    for name, (plan, everything, queue, pane) in streams.items():
        contest = contest_of(plan, candidates(plan, everything), 0.6, fixed(seed))
        taking_part = {**shedders("prefix", "espice", "bl"), "gspice": method("gspice", pane=pane)}
        yield from judged(contest, f"own-{name}", taking_part, (1.2, 2.0))
        yield from judged(under(contest, queue), f"own-queue-{name}", taking_part, (1.2, 2.0))


def adverse(size: Size, seed: int) -> Iterator[Point]:
    """Where the methods should do badly: a join that utilities of single events cannot see, and no predicate at all."""
    for name, where in (("join", "a.v = b.v AND b.v = c.v"), ("none", "a.v <= 10")):
        contest = contest_of(queries.g1(where=where), *letters("DS1", size, seed), fixed(seed))
        yield from judged(contest, f"adverse-{name}", shedders(*USUAL, "prefix"), (1.2, 2.0))


def negation(size: Size, seed: int) -> Iterator[Point]:
    """S6 on a synthetic stream: what is forwarded of partial matches that a negation ended."""
    where = "a.v <= 5 AND b.v <= 5 AND c.v <= 5"
    plan = queries.compiled("g7", "SEQ(A a, !(B b), C c)", where, "window: {size: 250 s, slide: 10 s}", data.LETTERS_SCHEMA)
    contest = contest_of(plan, *letters("DS1", size, seed), fixed(seed))
    yield from judged(
        contest, "negation", {**shedders(*USUAL, "prefix"), "gspice, no credit": method("gspice", abandoned_credit=0.0)}, RATES
    )


EXPERIMENTS: dict[str, Callable[[Size, int], Iterator[Point]]] = {
    "e1": e1,
    "e3": e3,
    "e4": e4,
    "e5": e5,
    "e6": e6,
    "negation": negation,
    "adverse": adverse,
    "own": own_methods,
}

_RATE = "rate, % of the capacity"
_STOCKS = [f"E3-{query}-{stream}" for stream in ("GF-2015", "generated") for query in ("Q4", "Q4-x2", "Q5", "Q5-x2")]
_OVER_RATES = [*(f"E1-{query}" for query in SYNTHETIC), *_STOCKS, "E4-POR-SUI-2019", "E4-generated", "negation"]
PLOTS = [
    *(Plot(figure, figure, _RATE) for figure in _OVER_RATES),
    *(Plot(figure, figure, _RATE, "wrong", "false positives, %") for figure in _OVER_RATES),
    *(Plot(f"E1-queue-{query}", f"{query}, virtual time", _RATE) for query in SYNTHETIC),
    Plot("E1-queue-Q1", "Q1, virtual time: greatest latency", _RATE, "latency_ms", "ms"),
    Plot("E1-capacity", "Q1 at 200 % by the operator's capacity", "events per second", log=True),
    Plot("E1-charged", "Q1: drop ratio with decisions charged", _RATE, "dropped", "dropped, %"),
    Plot("E5-Q1", "Q1 by length of the pane", "pane, events", log=True),
    Plot("E5-Q1", "Q1 by length of the pane", "pane, events", "wrong", "false positives, %", log=True),
    Plot("E5-Q4-GF-2015", "Q4 on GF-2015 by length of the pane", "pane, events", log=True),
    Plot("E5-Q4-generated", "Q4 on generated stocks by length of the pane", "pane, events", log=True),
    Plot("E6", "Q2 at 140 % by distribution", "DS"),
    Plot("E6-charged", "Q2 at 140 % by distribution: drop ratio with decisions charged", "DS", "dropped", "dropped, %"),
    *(Plot(f"adverse-{name}", f"Q1, adverse: {name}", _RATE) for name in ("join", "none")),
]


def main(given: Sequence[str] | None = None) -> None:
    """Runs, draws, judges."""
    command(
        Paper("gspice", __doc__, EXPERIMENTS, FULL, QUICK, PLOTS, gspice_verdicts, own_table("prefix", ("gspice", "espice", "bl"))), given
    )


if __name__ == "__main__":
    main()
