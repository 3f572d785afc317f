"""Live recall and precision over the last minutes."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from app.audit.sample import GROUPS
from app.control.messages.directives import Directive, QueryShedding
from app.control.messages.reports import QueryTally
from app.control.messages.totals import BatchTotals
from app.control.running_catalog import RunningCatalog
from app.control.shown.quality import PERIOD_MS, Quality
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


def test_once_a_query_has_shed_what_it_finds_counts_whether_its_sample_finds_anything_or_not():
    quality = begun()
    before = BatchTotals(0, queries={"q": QueryTally("q", matches=1_000)})
    shed = BatchTotals(1, queries={"q": QueryTally("q", matches=10, refuted=5)})
    after = BatchTotals(2, queries={"q": QueryTally("q", matches=40)})
    for totals, asked in ((before, {}), (shed, {"q": QueryShedding(0.5)}), (after, {})):
        quality.observe(MINUTE * totals.batch, totals, Directive(totals.batch, deployment="first", shedding=asked))
    assert quality.estimates("q")["precision"].value == pytest.approx(45 / 50), "of 50, 5 were refuted"


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


def restarted(snapshot, minute):
    quality = Quality()
    quality.restore(orjson.loads(orjson.dumps(snapshot)), minute * MINUTE)
    quality.open(running())
    return quality


def test_a_restart_forgets_nothing_of_the_last_minutes():
    quality = begun()
    observed(quality, 0, 10, shed=False)
    observed(quality, 1, 4, shed=True)
    again = restarted(quality.snapshot(), 5)
    assert again.estimates("q") == quality.estimates("q") != {}
    for one in (quality, again):
        observed(one, 6, 8, shed=True)
        assert one.estimates("q")["recall"].value == pytest.approx(22 / 30)
    assert again.snapshot() == quality.snapshot()


def test_what_was_known_before_a_long_outage_is_not_told_after_it():
    quality = begun()
    observed(quality, 0, 4, shed=True)
    assert restarted(quality.snapshot(), PERIOD_MS // MINUTE).estimates("q") != {}
    assert restarted(quality.snapshot(), 1 + PERIOD_MS // MINUTE).estimates("q") == {}


def test_nor_is_what_was_known_of_another_query_by_that_name():
    quality = Quality()
    quality.open(running(fingerprint="e" * 16))
    observed(quality, 0, 4, shed=True)
    again = restarted(quality.snapshot(), 1)
    assert again.estimates("q") == {}
    assert again.estimates("other")["recall"].value == pytest.approx(0.4)


def test_a_restart_does_not_tell_again_within_the_minute():
    quality, plans = begun(), {"q": a_plan()}
    observed(quality, 10, 4, shed=True)
    assert len(quality.reports(3, 10 * MINUTE, plans)) == 1
    again = restarted(quality.snapshot(), 10)
    assert again.reports(4, 10 * MINUTE + 30_000, plans) == ()
    assert len(again.reports(5, 11 * MINUTE, plans)) == 1


@pytest.mark.parametrize("memory", [{}, {"format": 99, "queries": 7}])
def test_where_nothing_is_remembered_it_begins_anew(memory):
    quality = restarted(memory, 1)
    assert quality.estimates("q") == {}
    observed(quality, 1, 4, shed=True)
    assert quality.estimates("q")["recall"].value == pytest.approx(0.4)


def test_what_is_remembered_is_small_and_nothing_of_queries_that_shed_nothing():
    quality = begun()
    for minute in range(30):
        observed(quality, minute, 9, shed=False)
    assert quality.snapshot()["queries"] == {}
    for minute in range(30, 60):
        observed(quality, minute, 9, shed=True)
    assert len(orjson.dumps(quality.snapshot())) < 2 * 2048


def test_a_clock_that_was_a_day_ahead_for_a_batch_leaves_nothing_behind():
    quality, plans = begun(), {"q": a_plan()}
    observed(quality, 1440, 4, shed=True)
    assert len(quality.reports(0, 1440 * MINUTE, plans)) == 1
    observed(quality, 1, 8, shed=True)
    assert quality.estimates("q")["recall"].value == pytest.approx(0.8), "the minute that has not been is not counted"
    assert len(quality.reports(1, MINUTE, plans)) == 1, "nobody waits for tomorrow"
    again = Quality()
    again.restore(orjson.loads(orjson.dumps(quality.snapshot())), 2 * MINUTE)
    again.open(running())
    assert again.estimates("q")["recall"].value == pytest.approx(0.8)
