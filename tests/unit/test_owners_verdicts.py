"""Verdicts as owners tell them: of composite events and of timeouts, on the audit topic and in counts."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from app.asc.selected import SelectedEvents
from app.control.messages.reports import QueryTally
from app.control.messages.totals import add_up
from app.events.batch import EventBatch
from tests.unit.owners_world import QUERY, ROOT, World

SHEDS = (
    QUERY.replace("within: 30 s", "within: 500 ms")
    + "on_timeout: emit\nshedding: {{shedder: random, latency_bound: 1 s}}\noutput: {{hold_for_verdict: HELD}}\n"
)
BATCHES = 6


def every_third(batch: EventBatch, selected: SelectedEvents) -> SelectedEvents:
    bitmaps = selected.bitmaps.copy()
    bitmaps[batch.offset[selected.relevant] % 3 == 0] = 0
    return selected.with_bitmaps(bitmaps).without_empty()


class Told:
    """What an owner of all buckets tells."""

    def __init__(self, folder: Path, *, held: bool) -> None:
        folder.mkdir()
        world = World(folder, BATCHES, query=SHEDS.replace("HELD", str(held).lower()), gate=every_third)
        self.tally, records = QueryTally("hasty"), []
        with closing(world.home()) as home:
            for batch in range(BATCHES):
                report, returned = home.advance(world.order(batch), world.batches[batch].deliveries)
                counts = add_up(batch, [report], ["hasty"]).queries["hasty"]
                self.tally = QueryTally(
                    "hasty",
                    **{
                        name: getattr(self.tally, name) + getattr(counts, name)
                        for name in ("matches", "timeouts", "confirmed", "refuted", "unverifiable", "withheld")
                    },
                )
                records += [row for stream in returned for row in pa.ipc.open_stream(stream).read_all().to_pylist()]
        self.verdicts = {one["composite_event"]: one for one in map(verdict, self._of(records, "cep.audit"))}
        self.matches = ids(self._of(records, "cep.hasty"))
        self.timeouts = ids(self._of(records, "cep.timeouts"))

    @staticmethod
    def _of(records: Sequence[dict[str, Any]], topic: str) -> list[dict[str, Any]]:
        return [one for one in records if one["topic"] == topic]


def verdict(record: dict[str, Any]) -> Any:
    schema = fastavro.parse_schema(json.loads((ROOT / "schemas" / "Verdict.avsc").read_text()))
    return fastavro.schemaless_reader(io.BytesIO(record["value"][5:]), schema, None)


def ids(records: Sequence[dict[str, Any]]) -> set[str]:
    return {header["value"].decode() for one in records for header in one["headers"] if header["key"] == "ce_id"}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Told]:
    folder = tmp_path_factory.mktemp("verdicts")
    return Told(folder / "written", held=False), Told(folder / "held", held=True)


def test_timeouts_have_verdicts_on_the_audit_topic_like_composite_events(told: tuple[Told, Told]) -> None:
    written, _ = told
    assert len(written.timeouts) == written.tally.timeouts
    of_timeouts = [written.verdicts[one] for one in written.timeouts & written.verdicts.keys()]
    kinds = np.unique([one["verdict"] for one in of_timeouts]).tolist()
    assert kinds == ["CONFIRMED", "FALSE_POSITIVE"]
    assert {one["refuted_by"]["topic"] for one in of_timeouts if one["verdict"] == "FALSE_POSITIVE"} == {"stocks"}
    assert all(one["refuted_by"]["offset"] % 3 == 0 for one in of_timeouts if one["verdict"] == "FALSE_POSITIVE")
    assert written.verdicts.keys() <= written.matches | written.timeouts
    assert written.tally.confirmed + written.tally.refuted + written.tally.unverifiable == len(written.verdicts)


def test_false_timeouts_are_withheld_where_the_query_asks_for_it(told: tuple[Told, Told]) -> None:
    written, held = told
    false = {name for name, one in written.verdicts.items() if one["verdict"] == "FALSE_POSITIVE"}
    assert false & written.timeouts
    assert held.timeouts == written.timeouts - false
    assert held.matches == written.matches - false
    assert {name for name, one in held.verdicts.items() if one["withheld"]} == false
    assert held.tally.withheld == held.tally.refuted == len(false)
    assert (held.tally.timeouts, held.tally.matches) == (len(held.timeouts), len(held.matches))
