"""Who gives for a bound."""

from __future__ import annotations

import pytest

from app.control.law.sharing import Goal, Ratios, shared_out
from shedding.overload import Share

SHARES = {"tight": Share(1.0, most=0.99), "loose": Share(0.4, most=0.99)}


def work(ratios: Ratios, verdicts: float) -> float:
    """Of both queries; the looser one's composite events are judged while it sheds."""
    kept = {query: 1 - ratios[query] for query in SHARES}
    return kept["tight"] + 0.4 * kept["loose"] + (verdicts if ratios["loose"] > 0 else 0.0)


def goal(query: str, limit: float, verdicts: float) -> Goal:
    def excess(ratios: Ratios) -> float:
        return work(ratios, verdicts) / limit

    def nobody(_: Ratios) -> Goal:
        raise AssertionError("it is in reach, easily")

    return Goal((query,), {"tight": 800.0, "loose": 8000.0}[query], excess, excess, excess, nobody, nobody)


@pytest.mark.parametrize(
    ("limit", "verdicts", "tight", "loose"),
    [
        (0.6, 0.0, 0.8, 0.0),  # the tight one first, and alone where that is enough
        (0.3, 0.0, 0.99, 0.275),  # then the looser one
        (0.6, 0.6, 0.8, 0.0),  # who costs more while it sheds than it saves is not asked, and its cost is no reason to give the bound up
        (0.3, 0.1, 0.99, 0.525),  # who saves more than that gives more, to make up for it
    ],
)
def test_a_looser_query_gives_where_that_helps(limit: float, verdicts: float, tight: float, loose: float) -> None:
    shared = shared_out([goal("tight", limit, verdicts), goal("loose", 10.0, verdicts)], SHARES)
    assert shared.in_reach
    assert dict(shared.ratios) == pytest.approx({"tight": tight, "loose": loose}, abs=1e-6)
