"""Live recall and precision over the last minutes."""

from dataclasses import replace

import numpy as np
import pytest

from app.audit.sample import GROUPS
from app.control.directives import Directive, QueryShedding
from app.control.quality import PERIOD_MS, Quality
from app.control.reports import QueryTally
from app.control.running_catalog import RunningCatalog
from app.control.totals import BatchTotals
from app.observe.metrics import Metrics
from app.query.plan import Catalog
from tests.unit.test_control_plane import a_plan

MINUTE = 60_000


def sample(found, left):
    """Composite events of the control sample, ten per random group, and as many of each as shedding would have left."""
    return np.array([[found] * GROUPS, [left] * GROUPS]).ravel().tolist()


def running(deployment="first", **changed):
    return RunningCatalog(Catalog.of((replace(a_plan(), **changed), a_plan("other"))), deployment)


def observed(quality, minute, left, *, shed, deployment="first"):
    """A minute of two queries, of which the same is known."""
    names = ("q", "other")
    totals = BatchTotals(0, queries={name: QueryTally(name, matches=100) for name in names}, samples=dict.fromkeys(names, sample(10, left)))
    asked = dict.fromkeys(names, QueryShedding(0.5)) if shed else {}
    quality.observe(minute * MINUTE, totals, Directive(0, deployment=deployment, shedding=asked))


def begun():
    quality = Quality()
    quality.open(running())
    return quality


def test_minutes_without_shedding_count_but_are_nothing_to_tell_of_alone():
    quality = begun()
    observed(quality, 0, 10, shed=False)
    assert quality.estimates("q") == {}
    observed(quality, 1, 4, shed=True)
    known = quality.estimates("q")
    assert known["recall"].value == pytest.approx(0.7), "of all that was found in both minutes"
    assert known["precision"].value == 1.0
    observed(quality, 2 + PERIOD_MS // MINUTE, 10, shed=False)
    assert quality.estimates("q") == {}, "what was shed is too long ago"


def test_timeouts_say_nothing_of_the_precision_of_composite_events():
    tally = QueryTally("q", matches=10, timeouts=40, refuted=8, withheld=1, unverifiable=5, refuted_timeouts=5, unverifiable_timeouts=3)
    quality = begun()
    quality.observe(0, BatchTotals(0, queries={"q": tally}), Directive(0, deployment="first", shedding={"q": QueryShedding(0.5)}))
    known = quality.estimates("q")["precision"]
    assert (known.value, known.lower, known.upper) == (pytest.approx(0.75), pytest.approx(0.6), pytest.approx(0.8))


def test_what_is_known_of_a_query_is_not_told_of_the_one_that_it_has_become():
    quality, metrics = begun(), Metrics()
    observed(quality, 0, 4, shed=True)
    quality.show(metrics, {"q", "other"})
    quality.open(running("second", title="better words"))
    assert quality.estimates("q")["recall"].value == pytest.approx(0.4), "it means the same"
    quality.open(running("third", fingerprint="e" * 16))
    quality.show(metrics, {"q", "other"})
    told = {name: metrics.value("cep_shed_recall_estimate_ratio", query=name, bound="estimate") for name in ("q", "other")}
    assert told == {"q": None, "other": pytest.approx(0.4)}
    observed(quality, 1, 4, shed=True, deployment="second")
    assert quality.told("q") == {}, "a batch of its old version was still on its way"
    observed(quality, 1, 10, shed=True, deployment="third")
    assert quality.estimates("q")["recall"].value == 1.0
    assert quality.estimates("other")["recall"].value == pytest.approx(0.7)
