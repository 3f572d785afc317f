"""What is known of a query's comparisons while a partial match still waits for the rest: numbers that tell how it will go on.

A comparison ``a.x + sum(b.x) < e.x + f.x`` asks whether right minus left is above 0. Each event that is bound makes one of its terms known; the sum of the terms
that are known is the *slack*: how much the rest has left. A partial match whose slack is far below 0 completes seldom or never.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.cep.door import Question
from app.features.kernels import sums
from app.query import expressions as e
from app.query.plan import Plan

Floats = NDArray[np.float64]
Asking = Callable[[Floats], Floats]
"""Of answers, float64 (questions, runs), one number for each partial match, float64 (runs,); NaN where it is not known, or is none."""
_EARTH_RADIUS_M = 6_371_000.0
_ORDER = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """The comparisons of one query by order, each as terms of right minus left.

    What is asked for is made of expressions once, answered by the engine in one walk over what is bound, and added up in one pass: a look by `stateful` was mostly this.

    Attributes:
        questions: what partial matches are asked about what they have bound.
        composed: terms that are more than an answer: products, distances.
        constant: float64 (comparisons,), what is known before anything is bound.
        starts: int64 (comparisons + 1,), the terms of comparison k stand at ``starts[k] : starts[k + 1]``.
        sign: float64 (terms,), 1 or -1.
        row: int64 (terms,), an answer's, or behind them that of something composed.
    """

    questions: tuple[Question, ...]
    composed: tuple[Asking, ...]
    constant: Floats
    starts: NDArray[np.int64]
    sign: Floats
    row: NDArray[np.int64]

    @staticmethod
    def of(plan: Plan, attributes: Collection[str]) -> Comparisons:
        """Those over several items; equality is for partitions and first events to know.

        Args:
            plan: the query's.
            attributes: which are asked for; what needs others is not known. Models learn from these numbers: with other ones they would have to be learned anew.
        """
        asked = [part for join in plan.joins if join.negated_item is None for part in e.walk(join.condition)]
        by_order = [part for part in asked if isinstance(part, e.Comparison) and part.operator in _ORDER]
        several = [part for part in by_order if len(e.mentioned_items(part)) > 1]
        return _compiled([[*_terms(part.right, 1), *_terms(part.left, -1)] for part in several], attributes)

    def slack(self, told: Floats) -> Floats:
        """float64 (comparisons, runs), NaN where no term is known.

        Args:
            told: float64 (questions, runs).
        """
        slack = np.empty((len(self.constant), told.shape[1]))
        if len(slack):
            terms = np.concatenate([told, [ask(told) for ask in self.composed]]) if self.composed else np.ascontiguousarray(told)
            sums(terms, self.constant, self.starts, self.sign, self.row, slack)
        return slack


def _compiled(comparisons: Sequence[Sequence[tuple[int, Any]]], attributes: Collection[str]) -> Comparisons:
    """Of sums of terms."""
    questions = _Questions(attributes)
    composed: list[Asking] = []
    constant, starts, signs, rows = [], [0], [], []
    for terms in comparisons:
        known = 0.0
        for sign, expression in terms:
            if not e.mentioned_items(expression):
                known += sign * float(np.nan_to_num(questions.asking(expression)(np.empty((0, 1)))[0]))
                continue
            place = questions.place(expression)
            if place is None:
                composed.append(questions.asking(expression))
                place = -len(composed)
            signs.append(float(sign))
            rows.append(place)
        constant.append(known)
        starts.append(len(rows))
    row = np.array(rows, np.int64)
    row = np.where(row < 0, len(questions.asked) - 1 - row, row)
    return Comparisons(tuple(questions.asked), tuple(composed), np.array(constant), np.array(starts), np.array(signs), row)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Questions:
    """What has to be asked, as expressions need it.

    Attributes:
        attributes: which may be asked for.
        asked: the questions, and which number each has.
    """

    attributes: Collection[str]
    asked: dict[Question, int] = field(default_factory=dict)

    def place(self, expression: Any) -> int | None:
        """The number of the question whose answer is the expression's value; None where it is more than one answer, or cannot be asked."""
        match expression:
            case e.AttributeOf(_, item, attribute, None) if attribute in self.attributes:
                question = Question("first", item, attribute)
            case e.Aggregate(_, function, item, attribute, False) if attribute is None or attribute in self.attributes:
                question = Question(function, item, attribute)
            case _:
                return None
        return self.asked.setdefault(question, len(self.asked))

    def asking(self, expression: Any) -> Asking:
        """How an expression's value follows from answers."""
        if (question := self.place(expression)) is not None:
            return partial(_answered, question)
        match expression:
            case e.Literal(_, bool() | int() | float() as constant):
                return partial(_everywhere, float(constant))
            case e.Arithmetic(_, operator, left, right) if operator in _ARITHMETIC:
                return partial(_applied, _ARITHMETIC[operator], (self.asking(left), self.asking(right)))
            case e.Negative(_, operand):
                return partial(_applied, np.negative, (self.asking(operand),))
            case e.Call(_, function, arguments) if function in _FUNCTIONS:
                return partial(_applied, _FUNCTIONS[function], tuple(self.asking(one) for one in arguments))
        return partial(_everywhere, np.nan)


def _answered(question: int, told: Floats) -> Floats:
    return told[question]


def _everywhere(constant: float, told: Floats) -> Floats:
    return np.full(told.shape[1], constant)


def _applied(function: Callable[..., Floats], parts: Sequence[Asking], told: Floats) -> Floats:
    return function(*(ask(told) for ask in parts))


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
