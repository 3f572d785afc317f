"""The default method of the experiments: who does least harm on what there is to learn from, and what is said of it."""

from __future__ import annotations

import pytest

from app.events.batch import EventBatch
from app.query.text.keys import AUTO
from ops.experiments import shedding_data as data
from ops.experiments import shedding_queries as queries
from ops.experiments.gspice import fixed
from ops.experiments.shedding_default import MOST_TIMES, Auto
from ops.experiments.shedding_figures import Point, Points
from ops.experiments.shedding_runs import contest_of, judged, under
from ops.experiments.shedding_verdicts import default_method
from shedding.registry import method


def test_it_is_whoever_does_least_harm_on_what_it_learned_from() -> None:
    contest = contest_of(queries.g1(), data.letters("DS1", 4_000, 0), 0.75, fixed(0))
    auto = Auto({name: method(name) for name in ("bl", "prefix", "e-bl")})
    chosen = auto.chosen(contest)
    assert chosen.name == "prefix", "the others do not look at values"
    assert auto.chosen(under(contest, fixed(1))) is chosen
    own, alone = (list(judged(contest, "F", {name: one}, (2.0,))) for name, one in ((AUTO, auto), ("prefix", method("prefix"))))
    assert [(one.curve, one.lost, one.wrong) for one in own] == [(AUTO, one.lost, one.wrong) for one in alone]


def test_with_too_few_composite_events_it_is_chosen_by_a_longer_stretch_of_the_stream() -> None:
    asked: list[int] = []

    def longer(times: int) -> EventBatch:
        asked.append(times)
        return data.letters("DS1", 40 if times == 2 else 3_000, 0)

    auto = Auto({name: method(name) for name in ("bl", "prefix", "e-bl")}, longer)
    few = contest_of(queries.g1(), data.letters("DS1", 60, 0), 0.5, fixed(0))
    assert auto.chosen(few).name == "prefix"
    assert asked == [2, 4], "until there are enough"
    enough = contest_of(queries.g1(), data.letters("DS1", 4_000, 0), 0.75, fixed(0))
    assert auto.chosen(enough).name == "prefix"
    assert asked == [2, 4], "what the contest gives is enough"


def test_a_stream_without_composite_events_is_not_waited_for_forever() -> None:
    asked: list[int] = []

    def longer(times: int) -> EventBatch:
        asked.append(times)
        return data.letters("DS1", 60, 0)

    contest = contest_of(queries.g1(where="a.v > 10"), data.letters("DS1", 60, 0), 0.5, fixed(0))
    Auto({"bl": method("bl")}, longer).chosen(contest)
    assert asked[-1] == MOST_TIMES


def test_who_cannot_learn_is_left_out_and_nobody_is_an_error() -> None:
    contest = contest_of(queries.g1(where="a.v > 10"), data.letters("DS1", 1_000, 0), 0.75, fixed(0))
    with pytest.raises(ValueError, match="nobody"):
        Auto({}).chosen(contest)


def points(**harm: tuple[float, float]) -> Points:
    return Points(Point("F", curve, 200, seed, lost, wrong) for curve, (lost, wrong) in harm.items() for seed in range(3))


def test_lost_and_wrong_count_together() -> None:
    near = default_method(points(auto=(10.0, 1.0), espice=(9.5, 0.0), bl=(0.0, 30.0), oracle=(0.0, 0.0)))
    assert near.status == "reproduced"
    assert "at most 1.5 points more harm" in near.numbers
    assert default_method(points(auto=(10.0, 3.0), espice=(9.5, 0.0))).status == "not reproduced"
    assert (
        "best published of those that were run in 1"
        in default_method(points(auto=(10.0, 0.0), espice=(9.5, 2.0), prefix=(1.0, 0.0))).numbers
    )
    hidden = default_method(points(auto=(10.0, 0.0), pspice=(9.0, 0.0), hspice=(1.0, 0.0), **{"match probability": (0.0, 0.0)}))
    assert hidden.status == "reproduced"
    assert "hSPICE, by its own count of work, is ahead by more than 2 in 1" in hidden.numbers
    with pytest.raises(KeyError):
        default_method(points(espice=(1.0, 0.0)))


def test_what_is_near_on_average_only_is_the_shape_of_the_claim() -> None:
    harm = {AUTO: (10.0, 11.0, 12.0), "espice": (9.0, 10.0, 11.0), "bl": (50.0, 50.0, 50.0)}
    near = [Point("F", curve, 200, seed, lost) for curve, values in harm.items() for seed, lost in enumerate(values)]
    assert default_method(Points(near)).status == "reproduced"
    scattered = [
        Point(one.figure, one.curve, one.x, one.seed, (5.0, 10.0, 15.0)[one.seed]) if one.curve == "espice" else one for one in near
    ]
    found = default_method(Points(scattered))
    assert found.status == "shape reproduced"
    assert "more than 2 in 0 of 1 settings, not surely at most 2 in 1" in found.numbers
