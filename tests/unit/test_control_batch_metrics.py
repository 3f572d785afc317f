"""What a finished batch adds to the metrics."""

from __future__ import annotations

from app.control.messages.directives import Directive
from app.control.messages.reports import StageReport
from app.control.messages.totals import total
from app.control.shown.batch_metrics import FinishedBatch, count_batch
from app.observe.metrics import Metrics
from app.observe.progress import Progress


def test_snapshots_that_were_passed_over_are_counted_over_all_buckets_and_batches() -> None:
    metrics = Metrics()
    for batch, damaged in ((4, (1, 2)), (5, (0, 0))):
        reports = [StageReport(batch, "cep", bucket, damaged=count) for bucket, count in enumerate(damaged)]
        count_batch(
            metrics, FinishedBatch(Progress(batch, "r", 0, 1), total(batch, reports), Directive(batch), 0, {}, {}, {}), {}, frozenset()
        )
    assert metrics.value("cep_damaged_snapshots_total") == 3
