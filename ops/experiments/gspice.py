"""The gSPICE paper's experiments (E1 to E7 of the specification, section 1.10) on generated streams, GF-2015 and POR-SUI-2019.

    nice -n 10 python -m ops.experiments.gspice FOLDER [--quick] [--only NAME] [--seeds N]

Writes plots (PNG, SVG), all points (``gspice.json``), and tables with verdicts (``gspice.md``), which it prints as well.

Two modes. *Fixed*: the share of events that exceeds the capacity is dropped from the first event on: what a shedder chooses, apart from how much. *Queue*: virtual time, the law of
`shedding.overload` asks for what keeps the queue at 80 % of the bound of 1 s; the operator manages 1,000 events per second, so a run lasts some seconds, and the queue stands at the safe
length when the first event arrives. ``E1-capacity`` shows what other capacities do. *Charged*: a queue in which decisions cost their measured share of the operator's measured work.

``E2`` varies the predicates (v <= k): at k = 5 half of all events are useless by type and value, which is what goes at 200 %, so the pane has nothing to tell. *gspice, no pane* is the same
table without predecessors. On recordings of stocks the operator stands behind selection (`Terms.selected`): panes hold all 487 symbols, only quotes of the query's four can be dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.evaluation.contest import Contest, Terms
from app.events.batch import EventBatch
from app.query.plan import Plan
from app.query.text.keys import AUTO
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.gspice_verdicts import gspice_verdicts
from ops.experiments.shedding_command import Paper, Size, command
from ops.experiments.shedding_default import Auto
from ops.experiments.shedding_figures import Plot, Point
from ops.experiments.shedding_runs import RATES, candidates, charged, contest_of, judged, shedders, under
from ops.experiments.shedding_verdicts import own_table
from shedding.events.gspice import PANE
from shedding.interface import Method
from shedding.panes import Pane
from shedding.registry import method

CAPACITY = 1_000.0
NO_PANE = "gspice, no pane"
KS = (3, 4, 5, 6, 7, 8)
MILLION = 1_000_000
PANES = (5, 10, 20, 40, 80, 320)
EVERY_KEY = "gspice, every key"
STOCK_PANES = (10, 50, 100, 400, 800, 1600)
CREDITS = {"gspice": 1.0, "gspice, no credit": 0.0}
USUAL = ("oracle", "gspice", "espice", "bl", "random")


FULL = Size(10, 30_000, 4_000)  # with six types twice as many to learn from
QUICK = Size(3, 20_000, 3_000)
ALL_RATES = (1.02, 1.05, 1.1, 1.2, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""From nearly nothing dropped to nearly all."""
FEW = 3
"""Seeds where the processor's clock is read, or where only the size of the buffer is varied."""


def every_key(pane: Pane = PANE) -> Method[Any]:
    """gSPICE as printed: every key that was ever observed has its own utility. Ours leaves out what was observed once."""
    return method("gspice", pane=pane, least=1)


def no_pane() -> Method[Any]:
    """gSPICE without what its paper is about: type and attributes alone. In a millisecond before an event there is none."""
    return method("gspice", pane=Pane(time_ms=1))


def default(gspice: Method[Any]) -> Auto:
    """The default method among all that the application runs on whole events, gSPICE with the experiment's pane."""
    return Auto({**{name: method(name) for name in ("prefix", "espice", "bl", "gspice-tree")}, "gspice": gspice})


def fixed(seed: int, *, selected: bool = False) -> Terms:
    """What exceeds the capacity is dropped; ``selected``: of what selection lets through."""
    return Terms(seed=seed, fixed=True, selected=selected)


def queued(seed: int, capacity: float = CAPACITY, *, selected: bool = False) -> Terms:
    """The law of the queue."""
    return Terms(seed=seed, capacity=capacity, overloaded=True, selected=selected)


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
        taking_part = {**shedders("gspice", "espice", "bl", *own), EVERY_KEY: every_key(), AUTO: default(method("gspice"))}
        yield from judged(contest, f"E1-{name}", taking_part, RATES)
        more = {"espice, row": method("espice", variant="row")} if name == "Q1" else {}
        yield from judged(contest, f"E1-{name}", {**shedders("oracle", "random"), **more}, (1.2, 2.0))
        yield from judged(under(contest, queued(seed)), f"E1-queue-{name}", shedders("gspice"), RATES)
        yield from judged(under(contest, queued(seed)), f"E1-queue-{name}", shedders("espice", "bl", *own), (1.2, 2.0))
        if name == "Q1" and seed < FEW:
            yield from _capacities(contest)


def e2(size: Size, seed: int) -> Iterator[Point]:
    """What the pane is worth, by how much type and value tell: predicates that hold for 3 to 8 of ten values, at 200 %."""
    for name, plan in (("Q1", queries.g1), ("Q3", queries.g3)):
        for k in KS:
            contest = contest_of(plan(k), *letters("DS1", size, seed), fixed(seed))
            taking_part = {**shedders("oracle", "gspice", "espice", "bl"), NO_PANE: no_pane(), EVERY_KEY: every_key()}
            yield from judged(contest, f"E2-{name}", taking_part, (2.0,), k)


def _capacities(contest: Contest) -> Iterator[Point]:
    """Q1 in virtual time by the operator's capacity: small buffers let the asked ratio fluctuate. Then with decisions that take their time (figure 4d)."""
    seed = contest.terms.seed
    for capacity in (500, 1_000, 2_000, 4_000, 10_000, 20_000):
        yield from judged(under(contest, queued(seed, capacity)), "E1-capacity", shedders("gspice", "espice"), (2.0,), capacity)
    taking_part = shedders("gspice", "gspice-tree", "gspice-forest", "espice", "bl")
    yield from judged(under(contest, charged(contest, queued(seed))), "E1-charged", taking_part, (1.4, 2.0))


PANE_STOCKS = Pane(events=50)


def four_symbols(seed: int) -> tuple[EventBatch, tuple[str, ...]]:
    """The four symbols of GF-2015 that move by 0.1 % most often on the first three days: their events alone, and their names."""
    batch, four = all_symbols(seed, 0.001)
    return candidates(queries.g4(four), batch), four


def all_symbols(seed: int, share: float) -> tuple[EventBatch, tuple[str, ...]]:
    """Moves of all 487 symbols of GF-2015 by this share, and the four that move most often on the first three days."""
    prices, minutes, names = data.gf_2015()
    batch = data.moved(prices, minutes, list(names), share, seed)
    learned = batch.type.values[: int(0.6 * len(batch))]
    most = sorted(np.argsort(-np.bincount(learned, minlength=len(names)), kind="stable")[:4].tolist())
    return batch, tuple(names[k] for k in most)


@dataclass(frozen=True, slots=True, eq=False)
class Stocks:
    """A stream of quotes, and four symbols of which queries speak.

    Attributes:
        name: of the stream.
        batch: moves.
        four: symbols.
        selected: the stream has other symbols as well, which selection keeps from the operator.
    """

    name: str
    batch: EventBatch
    four: tuple[str, ...]
    selected: bool

    def contest(self, plan: Plan, seed: int) -> Contest:
        """In fixed mode."""
        return contest_of(plan, self.batch, 0.6, fixed(seed, selected=self.selected))


GF_SHARES = {"GF-2015": 0.004, "GF-2015 at 0.2 %": 0.002}
"""The paper's threshold leaves 965 moves of four symbols in five days; half of it twice as many, and so more to learn from."""


def _stocks(size: Size, seed: int) -> Iterator[Stocks]:
    if data.recording(data.GF_2015) is not None:
        for name, share in GF_SHARES.items():
            yield Stocks(name, *all_symbols(seed, share), selected=True)
    prices, minutes, made = data.stock_prices(4, size.judging, seed)
    yield Stocks("generated", data.moved(prices, minutes, made, 0.001, seed), tuple(made), selected=False)


def _stock_queries(one: Stocks) -> dict[str, Plan]:
    plans = {"Q4": queries.g4(one.four), "Q5": queries.g5(one.four)}
    return plans if one.selected else {**plans, "Q4-x2": queries.g4(one.four, 2), "Q5-x2": queries.g5(one.four, 2)}


def e3(size: Size, seed: int) -> Iterator[Point]:
    """E3: stocks; of a recording, the seed only spreads the events of a minute. ``x2``: only moves of twice the threshold count."""
    own = {name: method("gspice", pane=PANE_STOCKS, abandoned_credit=credit) for name, credit in CREDITS.items()}
    for one in _stocks(size, seed):
        for figure, plan in _stock_queries(one).items():
            more = {**shedders("prefix"), **own} if "Q5" in figure else {"gspice": own["gspice"], NO_PANE: no_pane()}
            taking_part = {**shedders(*USUAL), **more, EVERY_KEY: every_key(PANE_STOCKS), AUTO: default(own["gspice"])}
            yield from judged(one.contest(plan, seed), f"E3-{figure}-{one.name}", taking_part, RATES)


def e3_all_rates(size: Size, seed: int) -> Iterator[Point]:
    """Ablation of figure 7: the paper's rates are a piece of a curve on which false positives rise while few matches are lost, and fall when most are."""
    taking_part = {**shedders("espice", "bl"), "gspice": method("gspice", pane=PANE_STOCKS), EVERY_KEY: every_key(PANE_STOCKS)}
    for one in _stocks(size, seed):
        for figure, plan in _stock_queries(one).items():
            yield from judged(one.contest(plan, seed), f"E3-all-rates-{figure}-{one.name}", taking_part, ALL_RATES)


def e4(size: Size, seed: int) -> Iterator[Point]:
    """E4: soccer."""
    gspice = method("gspice", pane=Pane(events=200))
    own = {**shedders(*USUAL), "gspice": gspice, AUTO: default(gspice)}
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
    for one in _stocks(size, seed):
        contest = one.contest(queries.g4(one.four, 1 if one.selected else 2), seed)
        for length in STOCK_PANES:
            own = {"gspice": method("gspice", pane=Pane(events=length)), EVERY_KEY: every_key(Pane(events=length))}
            yield from judged(contest, f"E5-Q4-{one.name}", own, (1.8,), length)


def e6(size: Size, seed: int) -> Iterator[Point]:
    """E6: distribution of types, DS5 to DS8, at 140 %."""
    for number in (5, 6, 7, 8):
        contest = contest_of(queries.g2(), *letters(f"DS{number}", size, seed, size.learning), fixed(seed))
        taking_part = {**shedders("gspice", "gspice-tree", "gspice-forest", "bl"), EVERY_KEY: every_key(), AUTO: default(method("gspice"))}
        yield from judged(contest, "E6", taking_part, (1.4,), number)
        if seed < FEW:
            models = shedders("gspice", "gspice-tree", "gspice-forest")
            yield from judged(under(contest, charged(contest, queued(seed))), "E6-charged", models, (1.4,), number)


def e6_million(size: Size, seed: int) -> Iterator[Point]:
    """E6 where type and value alone are not enough (v <= 8, where 28.6 % must go and a fifth is useless), by how much there is to learn from."""
    for number in (5, 6, 7, 8):
        for learning, name in ((size.learning, "E6-k8"), (MILLION if size is FULL else 2 * size.learning, "E6-k8-million")):
            if name == "E6-k8-million" and seed >= FEW:
                continue
            contest = contest_of(queries.g2(8), *letters(f"DS{number}", size, seed, learning), fixed(seed))
            trees = shedders("gspice-tree", "gspice-forest") if name == "E6-k8" else {}
            yield from judged(
                contest, name, {**shedders("gspice", "bl"), EVERY_KEY: every_key(), NO_PANE: no_pane(), **trees}, (1.4,), number
            )


def own_methods(size: Size, seed: int) -> Iterator[Point]:
    """`prefix` where the paper's pattern is one of two sequences, which it does not know: on the first of them, in both modes, behind selection."""
    streams = {"Q2-first": (queries.g1(), data.letters("DS5", 2 * (size.learning + size.judging), seed), Pane(events=10))}
    for one in _stocks(size, seed):
        streams[f"Q4-first-{one.name}"] = (queries.g4_rising(one.four, 1 if one.selected else 2), one.batch, PANE_STOCKS)
    players = {"generated": lambda: data.soccer_positions(size.judging // 4, seed), "POR-SUI-2019": data.por_sui_2019}
    for name, positions in players.items():
        if name == "generated" or data.recording(data.POR_SUI_2019) is not None:
            streams[f"Q6-first-{name}"] = (queries.p3(3), data.duel_events(*positions(), seed), Pane(events=200))
    for name, (plan, everything, pane) in streams.items():
        contest = contest_of(plan, everything, 0.6, fixed(seed, selected=True))
        gspice = method("gspice", pane=pane)
        taking_part = {**shedders("prefix", "espice", "bl"), "gspice": gspice, AUTO: default(gspice)}
        yield from judged(contest, f"own-{name}", taking_part, (1.2, 2.0))
        yield from judged(under(contest, queued(seed, selected=True)), f"own-queue-{name}", taking_part, (1.2, 2.0))


def adverse(size: Size, seed: int) -> Iterator[Point]:
    """Where the methods should do badly: a join that utilities of single events cannot see, and no predicate at all."""
    for name, where in (("join", "a.v = b.v AND b.v = c.v"), ("none", "a.v <= 10")):
        contest = contest_of(queries.g1(where=where), *letters("DS1", size, seed), fixed(seed))
        yield from judged(contest, f"adverse-{name}", {**shedders(*USUAL, "prefix"), AUTO: default(method("gspice"))}, (1.2, 2.0))


def negation(size: Size, seed: int) -> Iterator[Point]:
    """S6 on a synthetic stream: what is forwarded of partial matches that a negation ended."""
    where = "a.v <= 5 AND b.v <= 5 AND c.v <= 5"
    plan = queries.compiled("g7", "SEQ(A a, !(B b), C c)", where, "window: {size: 250 s, slide: 10 s}", data.LETTERS_SCHEMA)
    contest = contest_of(plan, *letters("DS1", size, seed), fixed(seed))
    more = {"gspice, no credit": method("gspice", abandoned_credit=0.0), AUTO: default(method("gspice"))}
    yield from judged(contest, "negation", {**shedders(*USUAL, "prefix"), **more}, RATES)


EXPERIMENTS: dict[str, Callable[[Size, int], Iterator[Point]]] = {
    "e1": e1,
    "e2": e2,
    "e3": e3,
    "all-rates": e3_all_rates,
    "e4": e4,
    "e5": e5,
    "e6": e6,
    "e6-k8": e6_million,
    "negation": negation,
    "adverse": adverse,
    "own": own_methods,
}

_RATE = "rate, % of the capacity"
_STOCKS = [
    *(f"E3-{query}-{stream}" for stream in GF_SHARES for query in ("Q4", "Q5")),
    *(f"E3-{query}-generated" for query in ("Q4", "Q4-x2", "Q5", "Q5-x2")),
]
_OVER_RATES = [*(f"E1-{query}" for query in SYNTHETIC), *_STOCKS, "E4-POR-SUI-2019", "E4-generated", "negation"]
_LOST_AND_WRONG = (("lost", "false negatives, %"), ("wrong", "false positives, %"))
PLOTS = [
    *(Plot(figure, figure, _RATE) for figure in _OVER_RATES),
    *(Plot(figure, figure, _RATE, "wrong", "false positives, %") for figure in _OVER_RATES),
    *(Plot(f"E3-all-rates-{one.removeprefix('E3-')}", one, _RATE, what, y, log=True) for one in _STOCKS for what, y in _LOST_AND_WRONG),
    *(Plot(f"E1-queue-{query}", f"{query}, virtual time", _RATE) for query in SYNTHETIC),
    Plot("E1-queue-Q1", "Q1, virtual time: greatest latency", _RATE, "latency_ms", "ms"),
    Plot("E1-capacity", "Q1 at 200 % by the operator's capacity", "events per second", log=True),
    Plot("E1-charged", "Q1: drop ratio with decisions charged", _RATE, "dropped", "dropped, %"),
    *(Plot(f"E2-{query}", f"{query} at 200 % by predicate", "v <= k") for query in ("Q1", "Q3")),
    Plot("E2-Q1", "Q1 at 200 % by predicate", "v <= k", "wrong", "false positives, %"),
    Plot("E5-Q1", "Q1 by length of the pane", "pane, events", log=True),
    Plot("E5-Q1", "Q1 by length of the pane", "pane, events", "wrong", "false positives, %", log=True),
    *(Plot(f"E5-Q4-{stream}", f"Q4 on {stream} by length of the pane", "pane, events", log=True) for stream in (*GF_SHARES, "generated")),
    *(
        Plot(name, f"Q2 with v <= 8 at 140 %, {learned} learned", "DS")
        for name, learned in (("E6-k8", "30,000"), ("E6-k8-million", "a million"))
    ),
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
