"""A batch that is left out takes nothing with it but its own records."""

from __future__ import annotations

from pathlib import Path

from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Directive, Frozen
from app.control.messages.totals import BatchTotals
from app.owners.skipping import skip
from app.storage.posix import PosixStore


def test_what_waited_before_a_batch_that_is_left_out_still_waits_for_heartbeats(tmp_path: Path) -> None:
    store = PosixStore(tmp_path)
    log = BatchLog(store)
    log.begin_run()
    log.directive(0, lambda number, times: Frozen(Directive(number, greatest_times=times), {}))
    log.finish(BatchTotals(0, reports=2, waiting=3, next_release_ms=77))
    for name in ("offsets/0", "commits/0", "offsets/1"):
        store.write(f"spark/{name}", [b'v1\n{}\n{"a":{"0":1}}'])
    skip(store, 1, 1, "state")
    assert BatchLog(store).totals(1) == BatchTotals(1, reports=0, waiting=3, next_release_ms=77)
