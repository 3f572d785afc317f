"""Files of a checkpoint, of every format there has been: this version reads from them what they were made of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.control.batch_log import BatchLog
from app.owners.orders import Advance
from app.owners.rebuilding import fed_again
from app.owners.snapshots import read_snapshot
from app.owners.state_log import STATE, StateLog, state_log
from app.pipeline.numbers import load_numbers
from app.storage.open import open_store
from tests.golden.stored import values

FOLDERS = sorted((Path(__file__).parent / "stored").glob("v[0-9]*"))
pytestmark = pytest.mark.parametrize("stored", FOLDERS, ids=lambda folder: folder.name)


def log_of(stored: Path) -> StateLog:
    return state_log(open_store(str(stored)), STATE, 0)


def test_a_log_entry_holds_what_was_decided_and_the_chunks(stored: Path) -> None:
    (found,) = log_of(stored).listing().entries.items()
    assert found == (values.BATCH, values.EPOCH)
    any_order = Advance("", 99, 1, values.DIRECTIVE, {}, (), ())
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
