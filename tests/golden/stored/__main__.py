"""Writes the files of the newest formats: ``python -m tests.golden.stored vN``. Only before they are released: afterwards a new folder begins."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from app.control.batch_log import BatchLog
from app.owners import blocks
from app.owners.blocks import Known, known_of
from app.owners.orders import Advance
from app.owners.rebuilding import entry_parts
from app.owners.snapshots import cut_snapshot
from app.owners.state_log import FORMAT, SNAPSHOT, STATE, StateLog, state_log
from app.pipeline.numbers import store_numbers
from app.storage.frames import write_frame
from app.storage.open import open_store
from tests.golden.stored import values


def main(name: str) -> None:
    """All of them."""
    folder = Path(__file__).parent / name
    shutil.rmtree(folder, ignore_errors=True)
    store = open_store(str(folder))
    store_numbers(str(folder), values.NUMBERS)
    batches = BatchLog(store)
    for _ in range(values.RUNS):
        batches.begin_run()
    batches.directive(values.BATCH, lambda *_: values.FROZEN)
    batches.finish(values.TOTALS)
    log = state_log(store, STATE, 0)
    order = Advance("", values.BATCH, 1, values.DIRECTIVE, values.GREATEST, (), ())
    log.append(values.BATCH, values.EPOCH, entry_parts(order, values.CHUNKS))
    write_snapshots(log)
    shutil.rmtree(folder / ".drafts")
    print(*(f"{one.size:8} {one.name}" for one in store.names()), sep="\n")


def write_snapshots(log: StateLog) -> None:
    """Two; the second one names blocks of the first. Blocks are smaller than real ones, which readers do not mind."""
    blocks.LEAST_WORDS, blocks.MEAN_WORDS, blocks.MOST_WORDS = 128, 512, 2048
    known = Known()
    for generation in values.GENERATIONS:
        name = log.snapshot_name(generation)
        cut = cut_snapshot(name, values.DEPLOYMENT, values.State(generation.batch), known)  # type: ignore[arg-type]
        known = known_of(cut.head, write_frame(log.store, name, SNAPSHOT, FORMAT, [cut.head, *cut.fresh]))


if __name__ == "__main__":
    main(*sys.argv[1:])
