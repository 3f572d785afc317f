from __future__ import annotations

from app.observe.progress import read_progress

PROGRESS = {
    "id": "i",
    "runId": "r",
    "timestamp": "2026-11-21T11:00:00.250Z",
    "batchId": 7,
    "batchDuration": 480,
    "numInputRows": 60,
    "durationMs": {"addBatch": 399, "walCommit": 20, "triggerExecution": 480},
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 1000}, {"numRowsTotal": 4, "memoryUsedBytes": 24}],
    "sources": [
        {
            "startOffset": '{"a": {"0": 10, "1": 0}}',
            "endOffset": {"a": {"0": 40, "1": 30}, "b": {"0": 5}},
            "latestOffset": {"a": {"0": 100, "1": 30}},
        }
    ],
}


def test_progress_is_read() -> None:
    progress = read_progress(PROGRESS)
    assert (progress.batch, progress.run_id, progress.planned_at_ms, progress.duration_ms) == (7, "r", 1795258800250, 480)
    assert progress.phases_ms == {"addBatch": 399, "walCommit": 20}
    assert (progress.state_rows, progress.state_bytes, progress.rows) == (7, 1024, 60)


def test_lag_and_arrivals_come_from_offsets() -> None:
    progress = read_progress(PROGRESS)
    assert progress.lag(("a", 0)) == 60
    assert progress.lag(("b", 0)) == 0
    assert progress.remaining == 60
    assert progress.arrived == 135


def test_first_batch_and_other_sources_do_no_harm() -> None:
    assert read_progress({"batchId": 0, "sources": [{"startOffset": None, "endOffset": {"a": {"0": 10}}}]}).arrived == 10
    assert read_progress({"batchId": 1, "sources": [{"endOffset": {"logOffset": 3}}]}).arrived == 0
    assert read_progress({}).batch == -1
