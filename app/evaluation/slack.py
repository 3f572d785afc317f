"""What is known of a query's comparisons while a partial match still waits for the rest: numbers that tell how it will go on.

A comparison ``a.x + sum(b.x) < e.x + f.x`` asks whether right minus left is above 0. Each event that is bound makes one of its terms known; the sum of the terms
that are known is the *slack*: how much the rest has left. A partial match whose slack is far below 0 completes seldom or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.query import expressions as e
from app.query.plan import Plan

Floats = NDArray[np.float64]
_EARTH_RADIUS_M = 6_371_000.0
_ORDER = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """What partial matches have bound.

    Attributes:
        run: int64 (bound,), number of the partial match, not falling.
        binding: int64 (bound,), what the event is bound to, as expressions call it.
        row: int64 (bound,), the event's row in ``values``.
        runs: how many partial matches there are.
        values: float64 (attributes, events).
        attributes: their names.
    """

    run: NDArray[np.int64]
    binding: NDArray[np.int64]
    row: NDArray[np.int64]
    runs: int
    values: Floats
    attributes: Sequence[str]

    def of(self, binding: int, attribute: str | None) -> tuple[NDArray[np.int64], Floats]:
        """Which partial matches bound something to it, once per event, and the attribute of these events; without one, 1."""
        own = self.binding == binding
        if attribute is None:
            return self.run[own], np.ones(np.count_nonzero(own))
        if attribute not in self.attributes:
            return self.run[:0], np.zeros(0)
        return self.run[own], self.values[self.attributes.index(attribute), self.row[own]]


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons of one query by order, each as terms of right minus left.

    Attributes:
        terms: by comparison: sign and expression.
    """

    terms: tuple[tuple[tuple[int, Any], ...], ...]

    @staticmethod
    def of(plan: Plan) -> Comparisons:
        """Those over several items; equality is for partitions and first events to know."""
        asked = [part for join in plan.joins if join.negated_item is None for part in e.walk(join.condition)]
        by_order = [part for part in asked if isinstance(part, e.Comparison) and part.operator in _ORDER]
        several = [part for part in by_order if len(e.mentioned_items(part)) > 1]
        return Comparisons(tuple((*_terms(part.right, 1), *_terms(part.left, -1)) for part in several))

    def slack(self, bound: Bound) -> Floats:
        """float64 (comparisons, runs), NaN where no term is known."""
        return np.stack([np.full(bound.runs, np.nan), *(_known(terms, bound) for terms in self.terms)])[1:]


def _terms(side: Any, sign: int) -> Iterator[tuple[int, Any]]:
    """A sum as its terms."""
    match side:
        case e.Arithmetic(_, "+" | "-" as operator, left, right):
            yield from _terms(left, sign)
            yield from _terms(right, sign if operator == "+" else -sign)
        case e.Negative(_, operand):
            yield from _terms(operand, -sign)
        case _:
            yield sign, side


def _known(terms: tuple[tuple[int, Any], ...], bound: Bound) -> Floats:
    worth = np.stack([sign * _value(term, bound) for sign, term in terms])
    bindable = np.array([bool(e.mentioned_items(term)) for _, term in terms])
    return np.where(np.isnan(worth[bindable]).all(axis=0), np.nan, np.nansum(worth, axis=0))


def _value(expression: Any, bound: Bound) -> Floats:
    """float64 (runs,), NaN where it is not known, or is no number."""
    match expression:
        case e.Literal(_, bool() | int() | float() as constant):
            return np.full(bound.runs, float(constant))
        case e.AttributeOf(_, item, attribute, None):
            return _aggregated("first", *bound.of(item, attribute), bound.runs)
        case e.Aggregate(_, function, item, attribute, False):
            return _aggregated(function, *bound.of(item, attribute), bound.runs)
        case e.Arithmetic(_, operator, left, right) if operator in _ARITHMETIC:
            return _ARITHMETIC[operator](_value(left, bound), _value(right, bound))
        case e.Negative(_, operand):
            return -_value(operand, bound)
        case e.Call(_, function, arguments) if function in _FUNCTIONS:
            return _FUNCTIONS[function](*(_value(one, bound) for one in arguments))
    return np.full(bound.runs, np.nan)


def _aggregated(function: str, run: NDArray[np.int64], values: Floats, runs: int) -> Floats:
    """Of each partial match's values; of none, NaN."""
    count = np.bincount(run, minlength=runs)
    found = np.full(runs, np.nan)
    begins = np.cumsum(count) - count
    some = np.flatnonzero(count)
    if function in ("first", "last"):
        found[some] = values[begins[some] + (count[some] - 1 if function == "last" else 0)]
    elif len(some):
        reduce = {"min": np.minimum, "max": np.maximum}.get(function, np.add)
        found[some] = reduce.reduceat(values, begins[some]) / (count[some] if function == "avg" else 1)
    return found


def haversine(lat1: Floats, lon1: Floats, lat2: Floats, lon2: Floats) -> Floats:
    """Metres between places in degrees, arrays that broadcast."""
    phi1, phi2 = np.radians(lat1), np.radians(lat2)
    h = np.sin((phi2 - phi1) / 2) ** 2 + np.cos(phi1) * np.cos(phi2) * np.sin(np.radians(lon2 - lon1) / 2) ** 2
    return np.asarray(2 * _EARTH_RADIUS_M * np.arcsin(np.minimum(1.0, np.sqrt(h))))


_ARITHMETIC: dict[str, Callable[[Floats, Floats], Floats]] = {"+": np.add, "-": np.subtract, "*": np.multiply}
_FUNCTIONS: dict[str, Callable[..., Floats]] = {
    "abs": np.abs,
    "min": lambda *parts: np.asarray(np.min(np.stack(parts), axis=0)),
    "max": lambda *parts: np.asarray(np.max(np.stack(parts), axis=0)),
    "distance": lambda x1, y1, x2, y2: np.hypot(x1 - x2, y1 - y2),
    "haversine": haversine,
}
