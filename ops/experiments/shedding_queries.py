"""The papers' queries in the query language. Patterns are reconstructed; what was free to choose is an argument with the default that was frozen before any run."""

from __future__ import annotations

from collections.abc import Sequence

from app.events.types import Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan
from ops.experiments.shedding_data import (
    AWAY,
    BUS_SCHEMA,
    HOME,
    LEADERS,
    LETTERS_SCHEMA,
    PLAYERS_SCHEMA,
    STEP_SCHEMA,
    of_use,
    schema_of,
)

REPEATED = (1, 1, 2, 3, 2, 4, 2, 5, 6, 7, 2, 8, 9, 10)
"""pSPICE's Q2: which of ten symbols each of its 14 elements is."""


def compiled(name: str, event: str, where: str, more: str, schema: StreamSchema) -> Plan:
    """The plan of one query with the papers' selection: each partial match takes the first event that fits.

    Raises:
        ValueError: the text is no query.
    """
    text = f'name: {name}\nfrom: s\nevent: "{event}"\nwhere: "{where}"\nstrategy: skip-till-next-match\n{more}\n'
    compilation = compile_texts([(f"{name}.yaml", text)], {"s": schema})
    if compilation.errors:
        raise ValueError(compilation.errors[0].render())
    return compilation.catalog.plans[0]


def _at_most(names: str, k: int, *, blind: bool = False) -> str:
    others = {name: names[0] if name != names[0] else names[1] for name in names}
    return " AND ".join(_asked(f"{name}.v <= {k}", f"{others[name]}.v > 10", blind=blind) for name in names)


def _asked(condition: str, never: str, *, blind: bool) -> str:
    """The condition; ``blind``: so that it can only be asked of a partial match, because another event takes part in it (in what is never true).

    For an operator that is a black box, as gSPICE's is: this engine's selection would keep events away that fail a predicate of their own, at almost no cost.
    """
    return f"({condition} OR {never})" if blind else condition


# --- gSPICE -----------------------------------------------------------------------------------------------------------------------------------------------------------------------------


def g1(k: int = 5, where: str | None = None, *, blind: bool = False, within: str = "") -> Plan:
    """Q1: a sequence with local predicates; another ``where`` for the adverse setting; ``blind``: see `_asked`; ``within``: from each A instead of windows."""
    span = f"within: {within}" if within else "window: {size: 250 s, slide: 10 s}"
    return compiled("g1", "SEQ(A a, B b, C c)", where or _at_most("abc", k, blind=blind), span, LETTERS_SCHEMA)


def g2(k: int = 5) -> Plan:
    """Q2: one of two sequences."""
    event = "OR(SEQ(A a, B b, C c), SEQ(D d, E e, F f))"
    return compiled("g2", event, _at_most("abcdef", k), "window: {size: 250 s, slide: 20 s}", LETTERS_SCHEMA)


def g3(k: int = 5, *, blind: bool = False) -> Plan:
    """Q3: with a closure, greedy until the first C."""
    return compiled("g3", "SEQ(A a, B+ b, C c)", _at_most("abc", k, blind=blind), "window: {size: 250 s, slide: 10 s}", LETTERS_SCHEMA)


def g4(symbols: Sequence[str], times: int = 1, *, blind: bool = False) -> Plan:
    """Q4: quotes of these companies all rise, or all fall, by at least so many times the stream's threshold."""
    rise, fall = (", ".join(f"'{symbol}' {way}{k}" for k, symbol in enumerate(symbols)) for way in "rf")
    where = " AND ".join(
        _asked(f"{way}{k}.move {'>= ' if way == 'r' else '<= -'}{times}", f"{way}{0 if k else 1}.move > 1000000", blind=blind)
        for way in "rf"
        for k in range(len(symbols))
    )
    schema = schema_of(list(symbols), move=Kind.INTEGER)
    return compiled("g4", f"OR(SEQ({rise}), SEQ({fall}))", where, "window: {size: 15 min, slide: 1 min}", schema)


def g4_rising(symbols: Sequence[str], times: int = 1, *, within: str = "") -> Plan:
    """The first of Q4's two sequences; ``within``: as in `g1`."""
    event = "SEQ(" + ", ".join(f"'{symbol}' r{k}" for k, symbol in enumerate(symbols)) + ")"
    where = " AND ".join(f"r{k}.move >= {times}" for k in range(len(symbols)))
    span = f"within: {within}" if within else "window: {size: 15 min, slide: 1 min}"
    return compiled("g4-rising", event, where, span, schema_of(list(symbols), move=Kind.INTEGER))


def g5(symbols: Sequence[str], times: int = 1) -> Plan:
    """Q5: the first two rise, then the last, and the third does not rise in between."""
    one, two, three, four = symbols
    event = f"SEQ('{one}' a, '{two}' b, !('{three}' n), '{four}' c)"
    where = " AND ".join(f"{name}.move >= {times}" for name in "abnc")
    return compiled("g5", event, where, "window: {size: 15 min, slide: 1 min}", schema_of(list(symbols), move=Kind.INTEGER))


def g6(count: int = 3, metres: float = 5.0, *, blind: bool = False) -> Plan:
    """Q6: a striker has the ball, then so many different opponents are near him."""
    home, away = ", ".join(HOME), ", ".join(AWAY)
    event = f"OR(SEQ(StrikerH s, ANY({count}; {away}) p), SEQ(StrikerA t, ANY({count}; {home}) q))"
    where = " AND ".join(
        _asked(f"{near}.distance <= {metres}", f"{striker}.distance > 100000", blind=blind) for near, striker in (("p", "s"), ("q", "t"))
    )
    return compiled("g6", event, where, "window: {size: 30 s, slide: 1 s}", PLAYERS_SCHEMA)


# --- pSPICE: a window per opening event is what ``within`` spans from it --------------------------------------------------------------------------------------


def p1(events: int, leaders: float = LEADERS) -> Plan:
    """Q1: ten quotes in sequence that go the way of the quote which opened the window; ``events`` are all quotes, also those that `shedding_data.steps` leaves out."""
    return _steps("p1", range(1, 11), events, leaders)


def p2(events: int) -> Plan:
    """Q2: fourteen, with repetition."""
    return _steps("p2", REPEATED, events)


def _steps(name: str, symbols: Sequence[int], events: int, leaders: float = LEADERS) -> Plan:
    items = ", ".join(f"S{symbol} q{k}" for k, symbol in enumerate(symbols))
    where = " AND ".join(f"q{k}.up = l.up" for k in range(len(symbols)))
    return compiled(name, f"SEQ(Leader l, {items})", where, f"within: {round(events * of_use(leaders))} events", STEP_SCHEMA)


def p3(count: int, metres: float = 5.0) -> Plan:
    """Q3: the home striker has the ball, then so many different defenders are near him; one item each, so that a partial match's state is how many they are."""
    items = ", ".join(f"ANY({', '.join(AWAY)}) d{k}" for k in range(count))
    near = [f"d{k}.distance <= {metres}" for k in range(count)]
    differ = [f"d{j}.player != d{k}.player" for k in range(count) for j in range(k)]
    return compiled("p3", f"SEQ(StrikerH s, {items})", " AND ".join([*near, *differ]), "within: 15 s", PLAYERS_SCHEMA)


def p4(count: int, events: int = 8000) -> Plan:
    """Q4: so many different late buses at one stop."""
    items = ", ".join(f"Bus b{k}" for k in range(count))
    late = [f"b{k}.late = 1" for k in range(count)]
    same = [f"b{k}.stop = b0.stop" for k in range(1, count)]
    differ = [f"b{j}.vehicle != b{k}.vehicle" for k in range(count) for j in range(k)]
    return compiled("p4", f"SEQ({items})", " AND ".join([*late, *same, *differ]), f"within: {events} events", BUS_SCHEMA)
