"""Leaves a batch out that cannot be worked off: its records are not matched, everything after it goes on as if they had never been there.

Spark is told that the batch is committed, every bucket's log that nothing came, and a file says which offsets were left out.
"""

from __future__ import annotations

import json

from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Frozen
from app.control.messages.totals import BatchTotals
from app.errors import CepError
from app.owners.inventory import SPARK, inventory
from app.owners.orders import EPOCHS_PER_RUN, Advance
from app.owners.rebuilding import entry_parts
from app.owners.spark_log import Offsets, read_offsets
from app.owners.state_log import state_log
from app.storage.store import MissingError, Store

COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
"""What Spark writes when no batch before has left it a text to copy."""
SKIPPED = "skipped"
"""Folder of the files that say what was left out."""


class SkipError(CepError):
    """The batch cannot be left out."""


def skip(store: Store, batch: int, buckets: int, state: str) -> str:
    """Leaves a batch out; returns the name of the file with its offsets. The application must not run.

    Args:
        store: the checkpoint.
        batch: to be left out.
        buckets: how many there are.
        state: their folder.

    Raises:
        SkipError: it is not the batch that the next start would repeat.
    """
    found = inventory(store, state)
    if found.unfinished != batch:
        hint = "no batch is unfinished" if found.unfinished is None else f"the unfinished one is {found.unfinished}"
        raise SkipError(f"batch {batch} cannot be left out: {hint}")
    log = BatchLog(store)
    before = log.totals(batch - 1)
    epoch = log.begin_run() * EPOCHS_PER_RUN
    directive = log.directive(batch, lambda number, _: _quiet(log, number))
    nothing = Advance("", batch, 0, directive, {}, {}, ())
    for number in range(buckets):
        state_log(store, state, number).append(batch, epoch + number, entry_parts(nothing, []))
    log.finish(BatchTotals(batch, waiting=before.waiting, next_release_ms=before.next_release_ms))  # heartbeats go by what waits
    name = f"{SKIPPED}/batch-{batch}.json"
    store.write(name, [json.dumps({"batch": batch, "offsets": _offsets(store, batch)}, indent=1).encode()])
    store.write(f"{SPARK}/commits/{batch}", [_commit(store, batch)])
    return name


def _quiet(log: BatchLog, batch: int) -> Frozen:
    """As the batch before, where the batch itself never began."""
    before = log.latest()
    if before is None:
        raise SkipError(f"batch {batch} is the first one: begin a new checkpoint with other starting offsets")
    return before.of_batch(batch, log.greatest_times_before(batch))


def _offsets(store: Store, batch: int) -> dict[str, dict[str, list[int | None]]]:
    """By topic and partition, the first offset and the one after the last."""
    ends, starts = _ends(store, batch), _ends(store, batch - 1)
    found: dict[str, dict[str, list[int | None]]] = {}
    for (topic, partition), end in ends.items():
        found.setdefault(topic, {})[str(partition)] = [starts.get((topic, partition)), end]
    return found


def _ends(store: Store, batch: int) -> Offsets:
    name = f"{SPARK}/offsets/{batch}"
    try:
        return read_offsets(name, store.read(name).decode()) or {}
    except MissingError:
        return {}


def _commit(store: Store, batch: int) -> bytes:
    try:
        return store.read(f"{SPARK}/commits/{batch - 1}")
    except MissingError:
        return COMMIT.encode()
