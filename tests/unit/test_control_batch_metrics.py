"""What a finished batch adds to the metrics."""

from __future__ import annotations

from dataclasses import replace

from app.control.messages.directives import Directive
from app.control.messages.reports import QueryTally, StageReport
from app.control.messages.totals import total
from app.control.shown.batch_metrics import FinishedBatch, count_batch
from app.observe.metrics import Metrics
from app.observe.progress import Progress
from app.query.compile import compile_texts
from app.query.resolved.vocabulary import UNKNOWN


def test_snapshots_that_were_passed_over_are_counted_over_all_buckets_and_batches() -> None:
    metrics = Metrics()
    for batch, damaged in ((4, (1, 2)), (5, (0, 0))):
        reports = [StageReport(batch, "cep", bucket, damaged=count) for bucket, count in enumerate(damaged)]
        count_batch(
            metrics, FinishedBatch(Progress(batch, "r", 0, 1), total(batch, reports), Directive(batch), 0, {}, {}, {}), {}, frozenset()
        )
    assert metrics.value("cep_damaged_snapshots_total") == 3


def test_of_a_query_that_sleeps_nothing_is_shed() -> None:
    """The gauge would stand at the last batch's ratio until its stream speaks again, and the alert fire."""
    (query,) = compile_texts([("q.yaml", "name: q\nevent: A a\nshedding: {shedder: random, latency_bound: 1 s}\n")], UNKNOWN).queries
    assert query.plan is not None
    metrics = Metrics()
    for batch, tallies in enumerate(({"q": QueryTally("q", candidates=10, shed=5)}, {})):
        totals = replace(total(batch, []), queries=tallies)
        finished = FinishedBatch(Progress(batch, "r", 0, 1), totals, Directive(batch), 0, {}, {}, {})
        count_batch(metrics, finished, {"q": query.plan}, frozenset())
        assert metrics.value("cep_realised_drop_ratio", query="q", shedder="random") == (0.5 if tallies else 0)
