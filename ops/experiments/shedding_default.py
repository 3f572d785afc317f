"""The default method, `shedder: auto`: whoever does least harm on the last third of what there is to learn from, when it learned from the rest; on each third in turn, where the last one holds too little. As the running application does it (ops/decisions/0040), under an experiment's own terms, and as there around the overload that there is: one choice per rate.

What it finds is in the points of the experiments under ``auto``; who was chosen is the shedder whose curve it follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from app.control.overload import around
from app.evaluation.contest import Contest
from app.evaluation.split import judged_by, parted
from shedding.interface import Method


@dataclass(frozen=True, slots=True)
class Auto:
    """A choice among methods.

    Attributes:
        among: methods by name.
    """

    among: Mapping[str, Method[Any]]
    _asked: list[tuple[Contest, dict[str, dict[float, float]]]] = field(default_factory=list, repr=False)

    def chosen(self, contest: Contest, rates: Sequence[float]) -> dict[str, list[float]]:
        """Who is shed by at which rates, from what the contest gives to learn from alone.

        Raises:
            ValueError: nobody can learn anything from it.
        """
        harm = self._harm(contest, rates)
        if not harm:
            raise ValueError("nobody learns anything")
        best: dict[str, list[float]] = {}
        for rate in rates:
            best.setdefault(min(harm, key=lambda name: harm[name][rate]), []).append(rate)
        return best

    def _harm(self, contest: Contest, rates: Sequence[float]) -> dict[str, dict[float, float]]:
        """By method and rate, in composite events; remembered by stream, whatever the terms are."""
        for asked, known in self._asked:
            if asked.plan is contest.plan and asked.learning is contest.learning and all(set(rates) <= set(one) for one in known.values()):
                return known
        found = dict(self._judged(contest, rates))
        self._asked.append((contest, found))
        return found

    def _judged(self, contest: Contest, rates: Sequence[float]) -> Iterator[tuple[str, dict[float, float]]]:
        inner = judged_by(len(contest.learning), partial(_inner, contest), lambda one: len(one.truth))
        for name, method in self.among.items():
            try:
                harm = [_harm(one, method, rates) for one in inner]
            except ValueError:
                continue  # it does not fit the query
            yield name, {rate: sum(one[rate] for one in harm) for rate in rates}


def _inner(contest: Contest, start: int, stop: int) -> Contest:
    return Contest(contest.plan, *parted(contest.learning, start, stop), replace(contest.terms, fixed=True))


def _harm(contest: Contest, method: Method[Any], rates: Sequence[float]) -> dict[float, float]:
    model = contest.train(method)
    return {rate: sum(len(contest.truth) * one.quality.harm for one in contest.standings(method, model, around(rate))) for rate in rates}
