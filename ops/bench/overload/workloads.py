"""What is run: a stream, and queries that are dear, many, or of several bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from app.config.settings import Settings, load_settings
from app.local.embedded import Embedded
from shedding.registry import METHODS

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS = 4
LEAST_BATCHES = 2.5
"""A bound is no shorter, whatever a machine's batches take."""
STREAMS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "stocks": (("Quote",), "symbol"),
    "retail": (("ShelfReading", "CounterReading", "ExitReading", "BackroomReading"), "tag_id"),
}
"""Kinds of events, and the key."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One stream and its queries.

    Attributes:
        stream: name of a generator (`app.local.generators`).
        queries: query files' texts by name, without `shedding`.
        bounds_ms: of the queries that have one.
        events_per_event_s: events per second of event time, whatever the rate of sending is: windows hold equally many throughout.
        first_batch: records per batch while the capacity is not known yet.
        forced: the drop ratio of all queries with a bound, where it is not left to the watchdog: what is judged is the audit, at rates that the machine can send.
        runs: whether queries with a bound are matched by the engine that has partial matches.
    """

    name: str
    stream: str
    queries: Mapping[str, str]
    bounds_ms: Mapping[str, int]
    events_per_event_s: float = 1000.0
    first_batch: int = 20_000
    forced: float | None = None
    runs: bool = False

    def texts(self, shedder: str | None) -> dict[str, str]:
        """Query files by name, shed or not.

        >>> WORKLOADS["engine"].texts("bl")["dear"].splitlines()[-1]
        'shedding: {shedder: bl, latency_bound: 1000 ms}'
        """
        return {name: text + self._shedding(name, shedder) for name, text in self.queries.items()}

    def matched_for(self, shedder: str) -> Workload:
        """The workload as the shedder's level wants it matched: shedders of partial matches need an engine that has them, whose capacity is another one.

        >>> [WORKLOADS["engine"].matched_for(shedder).label for shedder in ("bl", "pspice")]
        ['engine', 'engine-runs']
        """
        if not METHODS[shedder].of_matches:
            return self
        queries = {name: text + ("evaluator: runs\n" if name in self.bounds_ms else "") for name, text in self.queries.items()}
        return replace(self, queries=queries, runs=True)

    def bounded(self, batch_ms: float) -> Workload:
        """The workload on a machine whose batches take so long without overload: no bound is shorter than two and a half of them, since an event waits for up to two.

        >>> WORKLOADS["mixed"].bounded(450.0).bounds_ms, WORKLOADS["engine"].bounded(250.0).bounds_ms
        ({'dear': 1130, 'unbroken': 2500, 'next-rise': 10000}, {'dear': 1000})
        """
        least_ms = 10 * ceil(batch_ms * LEAST_BATCHES / 10)
        return replace(self, bounds_ms={query: max(bound_ms, least_ms) for query, bound_ms in self.bounds_ms.items()})

    @property
    def label(self) -> str:
        """Its name, and how it is matched."""
        return f"{self.name}-runs" if self.runs else self.name

    @property
    def streams(self) -> dict[str, Any]:
        """Its one stream, as settings have it."""
        kinds, key = STREAMS[self.stream]
        schemas = [str(ROOT / "schemas" / f"{kind}.avsc") for kind in kinds]
        return {self.stream: {"topics": [self.stream], "schemas": schemas, "time": "time", "ordered_by": key, "partitions": PARTITIONS}}

    def _shedding(self, query: str, shedder: str | None) -> str:
        bound = self.bounds_ms.get(query)
        return "" if shedder is None or bound is None else f"shedding: {{shedder: {shedder}, latency_bound: {bound} ms}}\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run works: a folder and services that no other run uses, so that equal events lie at equal places and matches have equal identities."""

    folder: Path
    services: Embedded
    models: Path | None = None

    def settings(self, workload: Workload, label: str, shedder: str | None, *, per_trigger: int | None = None) -> Settings:
        """Settings of an application that reads the place's one topic; its output is told apart by ``label``. Batches are as large as the application lets them be by default, where nothing is said."""
        own = self.folder / label
        (own / "queries").mkdir(parents=True)
        for name, text in workload.texts(shedder).items():
            (own / "queries" / f"{name}.yaml").write_text(text)
        plain: dict[str, Any] = {
            "kafka": {
                "bootstrap_servers": self.services.broker.bootstrap_servers,
                "starting_offsets": "earliest",
                **({} if per_trigger is None else {"max_offsets_per_trigger": per_trigger}),
            },
            "schema_registry": {"url": self.services.registry.url},
            "streams": workload.streams,
            "queries": {"paths": [str(own / "queries")], **({"models": str(self.models)} if shedder and self.models else {})},
            "topics": {"prefix": f"{label}-cep"},
            "checkpoint": {"path": str(own / "checkpoint")},
            "http": {"host": "127.0.0.1", "port": 0},
            "watchdog": {"enabled": shedder is not None},
        }
        (own / "settings.yaml").write_text(yaml.safe_dump(plain))
        return load_settings(own / "settings.yaml", {})


def _query(name: str, event: str, where: str, within: str, more: str = "") -> str:
    """Of quotes, by symbol."""
    return (
        f'name: {name}\nfrom: stocks\nevent: {event}\nwhere: "[symbol] AND {where}"\nwithin: {within}\n{more}return: {{symbol: b.symbol}}\n'
    )


DEAR = _query(
    "dear",
    "SEQ(Quote a, Quote b, Quote c)",
    "b.volume >= 3 * a.volume AND c.volume >= 3 * b.volume AND c.price >= 1.02 * a.price AND c.volume >= 100 * a.volume",
    "12 s",
)
"""Some 60 us per event: every event is held against the partial matches of its symbol."""
UNBROKEN = _query(
    "unbroken",
    "SEQ(Quote a, !(Quote x), Quote b)",
    "b.volume >= 40 * a.volume AND x.volume >= 20 * a.volume AND x.price <= a.price AND b.price >= 1.004 * a.price",
    "6 s",
)
"""Shed events can be those that would have forbidden a match: it has false positives."""
NEXT_RISE = _query(
    "next-rise", "SEQ(Quote a, Quote b)", "b.price > 1.01 * a.price AND a.volume >= 2000", "6 s", "strategy: skip-till-next-match\n"
)
ALWAYS = _query("always", "SEQ(Quote a, Quote b)", "a.volume >= 8000 AND b.volume >= 8000 AND b.price > 1.01 * a.price", "2 s")
"""Has no bound: it must lose nothing."""


def _cheap(number: int) -> str:
    """Next to nothing passes selection: one quote in some thousands is so large."""
    large = f"a.volume >= {18_000 + 100 * (number // 4)} AND b.volume >= {18_000 + 100 * (number % 5)} AND b.price > 1.0{number % 4 + 1} * a.price"
    return _query(f"cheap-{number:02}", "SEQ(Quote a, Quote b)", large, "10 s")


def _shipped(name: str) -> str:
    """Without its own output topic: every query of a run has one to itself."""
    query = yaml.safe_load((ROOT / "queries" / f"{name}.yaml").read_text())
    return yaml.safe_dump({key: value for key, value in query.items() if key not in {"output", "tests"}}, sort_keys=False)


MANY = {f"cheap-{number:02}": _cheap(number) for number in range(20)}

WORKLOADS: Mapping[str, Workload] = {
    "engine": Workload("engine", "stocks", {"dear": DEAR}, {"dear": 1000}),
    "ingress": Workload("ingress", "stocks", MANY, dict.fromkeys(MANY, 1000), first_batch=100_000),
    "mixed": Workload(
        "mixed",
        "stocks",
        {"dear": DEAR, "unbroken": UNBROKEN, "next-rise": NEXT_RISE, "always": ALWAYS},
        {"dear": 1000, "unbroken": 2500, "next-rise": 10_000},
    ),
    "shoplifting": Workload(
        "shoplifting",
        "retail",
        {"shoplifting": _shipped("shoplifting")},
        {"shoplifting": 1000},
        first_batch=100_000,
        forced=1 - 1 / 1.6,
    ),
}
