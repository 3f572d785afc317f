"""Checkpoints that other versions have left behind are continued: nothing is lost, and nothing told twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from app.control.messages.batch_log import TOTALS, BatchLog
from app.storage.open import open_store
from tests.golden.checkpoints.kept import unpacked

ARCHIVES = sorted((Path(__file__).parents[1] / "golden" / "checkpoints").glob("*.tar.xz"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.partition(".")[0])
def test_a_kept_checkpoint_goes_on_with_what_an_undisturbed_run_finds(spark, tmp_path, archive):
    application, coming = unpacked(archive, tmp_path / "moved")
    buckets = application.buckets()
    newest = BatchLog(open_store(application.checkpoint)).latest_batch(TOTALS)
    for files in (2, None):  # a restart in between
        application.arrive(files)
        application.run(spark)
    assert application.told == Counter(coming)
    first = BatchLog(open_store(application.checkpoint)).totals(newest + 1)
    assert first.damaged == 0, "every snapshot was read"
    assert first.fed["start"] == sum(newest - bucket.newest.batch for bucket in buckets) > 0, "and the log since then"
