"""The default method, `shedder: auto`: whoever does least harm on the last third of what there is to learn from, when it learned from the rest; on each third in turn, where the last one holds too little. With fewer than `FEWEST` composite events the application waits for more, and so does `Auto` where a stream goes on. As the running application does it (ops/decisions/0040), under an experiment's own terms and among an experiment's own candidates: whom the application would let compete on such a query is another list (`app.evaluation.examination.competitors`).

What it finds is in the points of the experiments under ``auto``; who was chosen is the shedder whose curve it follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from app.evaluation.contest import Contest
from app.evaluation.examination import FEWEST
from app.evaluation.split import RATES, judged_by, parted
from app.events.batch import EventBatch
from app.query.plan import Plan
from shedding.interface import Method

Longer = Callable[[int], EventBatch]
"""(times) → a stretch of the same kind of stream that is so many times as long as what a contest gives to learn from."""
MOST_TIMES = 16
"""A stream without any composite event does not end the waiting."""


@dataclass(frozen=True, slots=True)
class Auto:
    """A choice among methods.

    Attributes:
        among: methods by name.
        longer: what is chosen by where the contest gives fewer than `FEWEST` composite events; None: by what there is. Whoever is chosen learns what the contest gives, as all others.
    """

    among: Mapping[str, Method[Any]]
    longer: Longer | None = None
    _made: list[tuple[Plan, EventBatch, str]] = field(default_factory=list, repr=False)

    def chosen(self, contest: Contest) -> Method[Any]:
        """Who is shed by, from what the contest gives to learn from alone; one choice per stream, whatever its terms are.

        Raises:
            ValueError: nobody can learn anything from it.
        """
        for plan, learning, name in self._made:
            if plan is contest.plan and learning is contest.learning:
                return self.among[name]
        harm = dict(self._judged(contest))
        if not harm:
            raise ValueError("nobody learns anything")
        best = min(harm, key=lambda name: harm[name])
        self._made.append((contest.plan, contest.learning, best))
        return self.among[best]

    def _judged(self, contest: Contest) -> list[tuple[str, float]]:
        inner, times = _parts(contest), 1
        while self.longer is not None and sum(map(_true, inner)) < FEWEST and times < MOST_TIMES:
            times *= 2
            inner = _parts(Contest(contest.plan, self.longer(times), contest.judging, contest.terms))
        found = []
        for name, method in self.among.items():
            try:
                found.append((name, sum(len(one.truth) * _harm(one, method) for one in inner)))
            except ValueError:
                continue  # it does not fit the query
        return found


def _parts(contest: Contest) -> list[Contest]:
    """What is judged by, and learned from for it."""
    return judged_by(len(contest.learning), partial(_inner, contest), _true)


def _true(contest: Contest) -> int:
    return len(contest.truth)


def _inner(contest: Contest, start: int, stop: int) -> Contest:
    return Contest(contest.plan, *parted(contest.learning, start, stop), replace(contest.terms, fixed=True))


def _harm(contest: Contest, method: Method[Any]) -> float:
    standings = list(contest.standings(method, contest.train(method), RATES))
    return sum(one.quality.harm for one in standings) / len(standings)
