"""What is said of a batch: that shedding begins and ends, and nothing of a ratio that only changes."""

from __future__ import annotations

from structlog.testing import capture_logs

from app.config.settings import Settings
from app.control.arrivals.accounts import ACCOUNTS
from app.control.messages.decision_reports import DecisionReport, Reason
from app.control.shown.batch_remarks import BatchRemarks
from app.observe.metrics import Metrics


def decision(reason: Reason, ratio: float) -> DecisionReport:
    return DecisionReport(
        1_780_000_000_000, "theft", 1, 7, reason, "prefix", ratio, 0.0, 1000, 640.2, 2100.7, True, "MATCHING", 9000.0, 5000.0, 0
    )


def test_shedding_is_logged_when_it_begins_and_ends() -> None:
    with capture_logs() as logs:
        BatchRemarks.note_shedding([decision("SHEDDING_BEGINS", 0.4), decision("RATIO_CHANGED", 0.6), decision("SHEDDING_ENDS", 0.0)])
    assert [(one["event"], one["query"], one["batch_id"], one["drop_ratio"]) for one in logs] == [
        ("shedding begins", "theft", 7, 0.4),
        ("shedding ends", "theft", 7, 0.0),
    ]
    assert logs[0]["unshed_latency_ms"] == 2101


def test_breaches_are_counted_from_nothing_on() -> None:
    """Whoever looks at what a counter has grown by does not see one that appears with its first count."""
    metrics = Metrics()
    BatchRemarks(Settings(), metrics)
    assert [metrics.value("cep_accounting_breaches_total", account=account) for account in ACCOUNTS] == [0.0] * len(ACCOUNTS)
