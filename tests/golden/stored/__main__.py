"""Writes the files of the newest formats: ``python -m tests.golden.stored vN``. Only before they are released: afterwards a new folder begins."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from app.control.messages.batch_log import BatchLog
from app.events.registry import RegistrySettings
from app.owners import blocks
from app.owners.blocks import Known, known_of
from app.owners.inventory import SPARK
from app.owners.orders import Advance
from app.owners.rebuilding import entry_parts
from app.owners.skipping import COMMIT, skip
from app.owners.snapshots import cut_snapshot
from app.owners.state_log import FORMAT, SNAPSHOT, STATE, StateLog, state_log
from app.pipeline.answers import RememberedRegistry
from app.pipeline.numbers import store_numbers
from app.pipeline.schemas import KeptDecisions, KeptSchemas, SchemaKeeping
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
    order = Advance("", values.BATCH, 1, values.DIRECTIVE, values.GREATEST, {}, ())
    log.append(values.BATCH, values.EPOCH, entry_parts(order, values.CHUNKS))
    write_snapshots(log)
    write_schemas(str(folder))
    for batch, ends in values.OFFSETS.items():
        store.write(f"{SPARK}/offsets/{batch}", ["\n".join(["v1", "{}", json.dumps(ends)]).encode()])
    store.write(f"{SPARK}/commits/{values.BATCH}", [COMMIT.encode()])
    with tempfile.TemporaryDirectory() as other:
        name, text = left_out(folder, Path(other) / "copy")
    store.write(name, [text])
    shutil.rmtree(folder / ".drafts")
    print(*(f"{one.size:8} {one.name}" for one in store.names()), sep="\n")


def write_schemas(checkpoint: str) -> None:
    """What the registry answered, what was decided while it was away, and a writer's schema."""
    remembered = RememberedRegistry(values.Answering(), values.REGISTRY, checkpoint)
    remembered.latest("retail-value")
    remembered.register("cep.theft-value", values.OWN)
    remembered.save()
    KeptDecisions(checkpoint).write(values.BATCH, values.DECIDED)
    KeptSchemas(SchemaKeeping(checkpoint, RegistrySettings(values.REGISTRY)), values.Answering()).schema(values.WRITER_ID)  # type: ignore[arg-type]


def left_out(checkpoint: Path, copy: Path) -> tuple[str, bytes]:
    """Leaves the planned batch out of a copy; the name of the file that tells of it, and what it says."""
    shutil.copytree(checkpoint, copy, ignore=shutil.ignore_patterns("skipped", ".drafts"))
    name = skip(open_store(str(copy)), values.SKIPPED, 1, STATE)
    return name, (copy / name).read_bytes()


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
