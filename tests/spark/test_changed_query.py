"""A query whose file is changed between two runs of the application, with `on_change: drain`: the old version finishes what it began."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.local.generators import generate
from tests.spark.recorded import write_parquet
from tests.spark.test_recorded_topics import START_MS, build_world, emitted, run

QUERY = """\
name: taken-out
version: {version}
from: retail
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
within: {within}
on_change: drain
"""


def found_by(folder: Path, text: str, events: dict) -> tuple[dict[str, list[int]], list]:
    """Identity and positions of what `cep replay` finds, and the records."""
    folder.mkdir()
    (folder / "taken-out.yaml").write_text(text)
    _, records, expected = build_world(folder, events, (str(folder / "taken-out"),))
    return {one: [event["position"] for event in found["events"]] for one, found in expected.items()}, records


def test_the_old_version_finishes_what_it_began_and_the_new_one_begins(spark, tmp_path):
    events = {"retail": ("tag_id", generate("retail", 2000, seed=5, start_ms=START_MS, rate_per_s=50.0).batches)}
    old, new = (QUERY.format(version=number, within=within) for number, within in ((1, "20 s"), (2, "10 s")))
    of_new, _ = found_by(tmp_path / "new", new, events)
    of_old, records = found_by(tmp_path / "old", old, events)
    folder = tmp_path / "old"
    topics, parts = folder / "topics-changed", folder / "all"
    write_parquet(parts, records, 4)
    topics.mkdir()
    for number, part in enumerate(sorted(parts.iterdir())):
        part.rename(topics / part.name)
        if number == 2:
            (folder / "taken-out.yaml").write_text(new)
        if number > 0:  # the second run is the first of the new version, the third a restart of it
            run(spark, folder, "changed", 2)
    change = sum(map(len, np.array_split(np.arange(len(records)), 4)[:2]))
    begun = {one for one, positions in of_old.items() if min(positions) < change}
    fresh = {one for one, positions in of_new.items() if min(positions) >= change}
    assert len([one for one in begun if max(of_old[one]) >= change]) > 5, "the old version has something to finish"
    assert len(fresh) > 20
    found = emitted(folder, "changed")
    assert len(found) == len(set(found))
    assert set(found) == begun | fresh
