"""What the files were made of. Values may gain fields that have defaults; these here never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.asc.sequence import Sequence as Order
from app.control.messages.directives import Directive, Frozen, QueryShedding, SelectionOrders
from app.control.messages.reports import QueryTally, SourceProgress, Trouble
from app.control.messages.shed_reports import ShedReport
from app.control.messages.totals import BatchTotals
from app.control.server.registry_watch import Decided
from app.errors import DependencyError
from app.events.avro import AvroSchema, parse_schema
from app.events.registry import Registered
from app.owners.state_log import Generation, StateHome
from app.pipeline.numbers import NumberedTopic, Numbers
from app.storage.store import Part

BATCH, EPOCH = 7, (3 << 24) + 5
DEPLOYMENT = "8ee5f4ca0efa16fd7fef8a10"
RUNS = 3
GREATEST = {0: 1_780_000_000_300, (1 << 32) + 2: 1_780_000_000_200}
CHUNKS = [(Path(__file__).parents[1] / "formats" / "v1" / "chunk-0.bin").read_bytes(), b""]
GENERATIONS = (Generation(5, EPOCH), Generation(6, EPOCH))

DIRECTIVE = Directive(
    batch=BATCH,
    catalog_version=2,
    deployment=DEPLOYMENT,
    decided_at_ms=1_780_000_000_123,
    seed=11,
    shedding={"theft": QueryShedding(0.25, "gspice", "matching", 1200.5, 40, 0.125)},
    greatest_times={0: 1_780_000_000_000},
    sources=(0, (1 << 32) + 2),
    idle=((1 << 32) + 2,),
    stream_times={"away": 12},
    schema_ids={"cep.theft-cep.theft": 4},
    shed_reports=(ShedReport(1_780_000_000_000, "theft", 1, 6, "gspice", 0.25, 40, 11, utility_threshold=0.125, latency_bound_ms=1000),),
    selection={"away": SelectionOrders(Order((1, 0), {1: np.array([-1, -1, 0], dtype=np.int32)}), 100)},
    coming="cdf33ecc088c98ec3d829abd",
)
FROZEN = Frozen(DIRECTIVE, {"idle": {"retail": [[0, 5]]}, "watchdog": {"ratios": {"theft": 0.25}}})
TOTALS = BatchTotals(
    batch=BATCH,
    reports=3,
    sources={0: SourceProgress(0, 40, 1_780_000_000_300, 1_780_000_000_400, 1_780_000_000_500, 100, 140, 4096), 1: SourceProgress(1, 0)},
    queries={
        "theft": QueryTally(
            "theft",
            candidates=30,
            shed=11,
            matches=4,
            timeouts=2,
            partial_matches=9,
            cost_ns=123_456,
            latencies=(1, 0, 3),
            latency_sum_ms=77,
            limited_matches=1,
            limited_runs=5,
            judged_matches=8,
            ended_matches=6,
            tuples_shed=12,
            tuples_kept=13,
        )
    },
    counts={"consumed": 40, "late": 1},
    rejected={"no-time": 2},
    cost_ns={"owners-cpu": 1_000},
    waiting=17,
    next_release_ms=1_780_000_000_600,
    state_rows=1_000,
    state_bytes=65_536,
    troubles={"originals": Trouble("originals", 2, "broker away")},
    fed={"own": 2, "lost": 5},
    damaged=1,
    handed=60,
    unpacked=59,
    records=6,
    sent=5,
    attempts=2,
    phases_ns={"decide": 5, "match": 7},
)
NUMBERS = Numbers(
    (NumberedTopic("retail", "Jx0N2w", 1, ((0, 5), (2, 7))), NumberedTopic("stocks"), NumberedTopic("retail", "Zz9N2w", 2)),
    buckets=4,
    home=StateHome(2, 5, DEPLOYMENT),
)

REGISTRY = "http://registry.example:8081"
READER, OWN = '{"type": "record", "name": "Step", "fields": [{"name": "tag", "type": "string"}]}', '{"type": "string"}'
LATEST = Registered(7, 3, READER, parse_schema(READER), "5a3c0f9e-4e9b-4a55-8d5e-0b1a7f6f2d11")
WRITER_ID, OWN_ID = 9, 4
DECIDED = Decided(away=True, found=frozenset({WRITER_ID, "5a3c0f9e-4e9b-4a55-8d5e-0b1a7f6f2d11"}))
SKIPPED, OFFSETS = 8, {7: {"retail": {"0": 40, "1": 9}}, 8: {"retail": {"0": 55, "1": 9, "2": 3}}}
"""A batch that was planned and is to be left out; ends of it and of the one before."""


class Answering:
    """A registry that says the same for ever."""

    def latest(self, subject: str) -> Registered | None:
        return LATEST if subject == "retail-value" else None

    def register(self, subject: str, text: str) -> int:
        return OWN_ID

    def schema(self, key: int | str) -> AvroSchema:
        return LATEST.schema


class Away:
    """One that does not answer."""

    def latest(self, subject: str) -> Registered | None:
        raise DependencyError("away")

    def register(self, subject: str, text: str) -> int:
        raise DependencyError("away")

    def schema(self, key: int | str) -> AvroSchema:
        raise DependencyError("away")


@dataclass(frozen=True, slots=True)
class State:
    """In the place of a bucket: parts of every size, and what it holds at two times."""

    batch: int

    def parts(self) -> dict[str, bytes]:
        """By name. The later state has lost rows at one end and gained some at the other; its small part is another one."""
        words = (np.arange(6000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(52)
        begin = 500 * (self.batch - GENERATIONS[0].batch)
        return {"bucket": f"after batch {self.batch}".encode(), "engine-0": words[begin : begin + 4000].tobytes(), "none": b""}

    def snapshot_parts(self) -> list[tuple[str, Sequence[Part]]]:
        """As a bucket's."""
        return [(name, [part]) for name, part in self.parts().items()]
