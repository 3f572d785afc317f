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

    plateau_ms = {"tight": 800.0, "loose": 8000.0}[query]
    return Goal((query,), plateau_ms, plateau_ms, excess, excess, excess, nobody, nobody)


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


@pytest.mark.parametrize(
    ("best", "free_ms", "in_force", "in_reach"),
    [
        (0.5, 800.0, 0, True),
        (0.7, 800.0, 0, True),
        (0.7, 600.0, 1, True),  # it takes nearly all that may go to leave the room as well
        (0.9, 800.0, 1, True),
        (1.2, 800.0, 2, False),
    ],
)
def test_what_was_asked_for_in_the_end_is_told(best: float, free_ms: float, in_force: int, in_reach: bool) -> None:  # noqa: FBT001
    """The ratios that hold are about right by the goal that they were chosen for, and not by one that is hardly to be had."""

    def kept_to(least: float, *others: Goal) -> Goal:
        def excess(ratios: Ratios) -> float:
            return least + 1 - ratios["tight"]

        eased, relaxed = others or (None, None)
        return Goal(("tight",), 800.0, free_ms, excess, excess, excess, lambda _: relaxed, lambda _: eased)  # type: ignore[arg-type, return-value]

    goals = [eased, relaxed] = kept_to(0.3), kept_to(0.4)
    strict = kept_to(best - 0.01, eased, relaxed)
    shared = shared_out([strict], SHARES)
    assert shared.goals == ([strict, *goals][in_force],)
    assert shared.in_reach == in_reach
