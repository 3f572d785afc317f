"""Files of a checkpoint, of every format there has been: this version reads from them what they were made of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.control.messages.batch_log import BatchLog
from app.errors import DependencyError
from app.events.registry import RegistrySettings
from app.owners.inventory import inventory
from app.owners.orders import Advance
from app.owners.rebuilding import fed_again
from app.owners.snapshots import read_snapshot
from app.owners.state_log import STATE, StateLog, state_log
from app.pipeline.answers import RememberedRegistry
from app.pipeline.numbers import load_numbers
from app.pipeline.schemas import KeptDecisions, KeptSchemas, SchemaKeeping
from app.storage.open import open_store
from tests.golden.stored import values
from tests.golden.stored.__main__ import left_out

FOLDERS = sorted((Path(__file__).parent / "stored").glob("v[0-9]*"))
pytestmark = pytest.mark.parametrize("stored", FOLDERS, ids=lambda folder: folder.name)


def log_of(stored: Path) -> StateLog:
    return state_log(open_store(str(stored)), STATE, 0)


def test_a_log_entry_holds_what_was_decided_and_the_chunks(stored: Path) -> None:
    (found,) = log_of(stored).listing().entries.items()
    assert found == (values.BATCH, values.EPOCH)
    any_order = Advance("", 99, 1, values.DIRECTIVE, {}, {}, ())
    order, chunks = fed_again(any_order, log_of(stored).entry(*found), values.BATCH)
    assert order.directive.to_plain() == values.DIRECTIVE.to_plain()
    assert (order.batch, order.greatest) == (values.BATCH, values.GREATEST)
    assert [bytes(chunk) for chunk in chunks] == values.CHUNKS


def test_snapshots_hold_the_state_that_they_were_cut_from(stored: Path) -> None:
    log = log_of(stored)
    generations = log.listing().generations
    assert [(one.batch, one.epoch) for one in generations] == [(one.batch, one.epoch) for one in values.GENERATIONS]
    for generation in generations:
        snapshot = read_snapshot(log, generation)
        assert snapshot.deployment == values.DEPLOYMENT
        assert {name: bytes(part) for name, part in snapshot.parts.items()} == values.State(generation.batch).parts()
        assert len(snapshot.known.blocks) > 3, "it is cut into blocks"
    assert set(snapshot.known.files) == {log.snapshot_name(one) for one in generations}, "the newer one names blocks of the older one"


def test_totals_and_directives_of_a_batch_are_what_they_were(stored: Path) -> None:
    batches = BatchLog(open_store(str(stored)))
    assert batches.totals(values.BATCH) == values.TOTALS
    frozen = batches.frozen(values.BATCH)
    assert frozen is not None
    assert frozen.directive.to_plain() == values.DIRECTIVE.to_plain()
    assert frozen.memory == values.FROZEN.memory


def test_numbers_stand_for_what_they_stood_for(stored: Path) -> None:
    assert load_numbers(str(stored)) == values.NUMBERS


def test_runs_are_counted_on(stored: Path, tmp_path: Path) -> None:
    shutil.copy(stored / "run.bin", tmp_path)
    assert BatchLog(open_store(str(tmp_path))).begin_run() == values.RUNS + 1


def test_what_the_registry_answered_stands_for_it_while_it_is_away(stored: Path) -> None:
    remembered = RememberedRegistry(values.Away(), values.REGISTRY, str(stored))
    latest = remembered.latest("retail-value")
    assert latest is not None
    known = values.LATEST
    assert (latest.schema_id, latest.version, latest.text, latest.guid) == (known.schema_id, known.version, known.text, known.guid)
    assert (latest.schema.root, latest.schema.names) == (known.schema.root, known.schema.names)
    assert remembered.register("cep.theft-value", values.OWN) == values.OWN_ID
    with pytest.raises(DependencyError):
        RememberedRegistry(values.Away(), "http://another.example", str(stored)).latest("retail-value")


def test_a_writers_schema_needs_no_registry(stored: Path) -> None:
    keeping = SchemaKeeping(str(stored), RegistrySettings(values.REGISTRY))
    found = KeptSchemas(keeping, values.Away()).schema(values.WRITER_ID)  # type: ignore[arg-type]
    assert found is not None
    assert (found.root, found.names) == (values.LATEST.schema.root, values.LATEST.schema.names)


def test_what_was_decided_while_the_registry_was_away_holds(stored: Path) -> None:
    assert KeptDecisions(str(stored)).read(values.BATCH) == values.DECIDED


def test_a_batch_is_left_out_of_a_checkpoint_and_its_offsets_are_told_as_ever(stored: Path, tmp_path: Path) -> None:
    name, text = left_out(stored, tmp_path / "copy")
    assert text == (stored / name).read_bytes()
    assert json.loads(text) == {
        "batch": values.SKIPPED,
        "offsets": {"retail": {"0": [40, 55], "1": [9, 9], "2": [None, 3]}},
    }
    found = inventory(open_store(str(tmp_path / "copy")), STATE)
    assert (found.committed, found.unfinished) == (values.SKIPPED, None)
