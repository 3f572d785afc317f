"""The default method on a clock, `shedder: auto`: chosen as a running application chooses (`app.evaluation.examination`), at equal work, from what everybody learns from and among those that take part.

eSPICE does not stand for the default: here it drops events from single windows, the application whole events, and it is these that the choice judges. To choose takes no time of a run (in the application a process beside the stream does it), so the default's points are those of whom it chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from app.evaluation.examination import Examination, competitors
from app.evaluation.examination import chosen as best_of
from app.evaluation.shed_query import ShedQuery
from app.events.batch import EventBatch
from app.query.plan import Plan
from app.query.text.keys import AUTO
from ops.experiments.shedding_figures import Point
from shedding.registry import METHODS


def chosen(plan: Plan, learning: EventBatch, names: Iterable[str], seed: int) -> str:
    """Whoever does least harm, of those that the application lets compete on such a query.

    Args:
        plan: the query's, for the evaluator that the runs use.
        learning: what everybody learns from.
        names: of shedders that take part in the runs.
        seed: of all chance.

    Raises:
        ValueError: nobody can learn anything from it.
    """
    taking_part = {name for name in names if METHODS[name].level != "events per window"}
    return best_of(dict(Examination(ShedQuery(plan, plan, learning), seed).harms([one for one in competitors(plan) if one in taking_part])))


def with_default(points: Iterable[Point], default: str) -> Iterator[Point]:
    """Runs, and once more as the default method's where it is whose runs they are."""
    for point in points:
        yield point
        if point.curve == default and point.capacity:
            yield replace(point, curve=AUTO)
