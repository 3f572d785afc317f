"""A small world with every kind of state: what runs in it, what happens in it, and what is found."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml

from app.asc.sequence import Sequence as Order
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress, TimeRules
from app.bucket.ingress import IngressPlan
from app.cli.shedding.train import train
from app.config.settings import load_settings
from app.control.messages.directives import Directive, QueryShedding, SelectionOrders
from app.control.messages.shed_reports import ShedReport
from app.events.batch import source_number
from app.events.registry import Registry, RegistrySettings
from app.features.events import Features
from app.owners.deployment import Deployment
from app.owners.models import restored
from app.owners.query_texts import QueryTexts
from app.owners.tuple_memory import tuple_memory
from app.pipeline.draining import Past
from app.pipeline.gate import QueryModel, shedding_gate
from app.pipeline.preparation import compile_queries, prepare, read_streams
from tests.naive.composites import CompositeEvent, composite_events
from tests.naive.language import Event
from tests.property.event_arrays import event_batch

STEPS, CHANGE, CUT = 7, 2, 4
"""Batches; the second deployment comes before the one at the change, the snapshot is made before the one at the cut."""
TOPICS = {0: "a.plain", 1: "b.ordered"}
"""By source of the events here."""
KINDS = {"k": "string", "v": "integer", "w": "float", "f": "boolean"}
TYPES = {"A": dict(KINDS), "B": {name: KINDS[name] for name in "kvw"}, "C": {name: KINDS[name] for name in "kvf"}}
AVRO = {"string": "string", "integer": "long", "float": "double", "boolean": "boolean"}
QUERIES = {
    "stacks": """\
from: plain
event: SEQ(A a, !(B b), C c)
where: "[k] AND a.v <= c.v"
within: 300 ms
return: {k: a.k, sum: a.v + c.v, w: a.w}
shedding: {shedder: gspice-forest, pane: 7 events, latency_bound: 1 s}
""",
    "waiting": 'from: plain\nevent: SEQ(A a, C c, !(B b))\nwhere: "[k]"\nwithin: 120 ms\n',
    "pair-1": "from: plain\nevent: SEQ(A a, B b)\nwhere: a.v = 1 AND a.k = b.k\nwithin: 90 ms\nreturn: {k: a.k, v: b.v}\n",
    "pair-2": "from: plain\nevent: SEQ(A a, B b)\nwhere: a.v = 2 AND a.k = b.k\nwithin: 90 ms\nreturn: {k: a.k, v: b.v}\n",
    "branches": """\
from: plain
event: SEQ(A a, B+ b[], C c)
where: "[k] AND b[i].v != 0 AND c.v > 1"
within: 150 ms
return: {k: a.k, n: count(b), vs: b.v}
on_timeout: emit
""",
    "chain": """\
from: plain
event: SEQ(A a, B+ b[])
where: "[k] AND b[i].v > b[i-1].v"
strategy: skip-till-next-match
within: 200 ms
""",
    "longest": 'from: plain\nevent: SEQ(A+ a[], C c)\nwhere: "[k]"\nwithin: 100 ms\nstrategy: skip-till-next-match\nemit: longest\n',
    "counted": 'from: plain\nevent: SEQ(A a, C c)\nwhere: "[k]"\nwithin: 6 events\n',
    "temporal": "from: plain\nselect: [v]\nkey: [k]\ncoalesce: {max_gap: 10 ms, duration: until-next}\nwindow: {range: 200 ms, slide: 40 ms}\n",
    "bounded": """\
from: plain
select: [v]
key: [k]
coalesce: {max_gap: 40 ms, duration: 30 ms}
window: {range: 400 ms, slide: 100 ms}
shedding: {shedder: cals, memory: 3 tuples}
""",
    "trusted": 'from: ordered\nevent: SEQ(A a, B b)\nwhere: "[k] AND a.w < b.w"\nwithin: 250 ms\n',
    "reader": "from: query:pair-1\nevent: \"SEQ('pair-1' x, 'pair-1' y)\"\nwhere: \"[k]\"\nwithin: 150 ms\n",
    "reader-of-reader": "from: query:reader\nevent: SEQ(reader x, reader y)\nwithin: 100 ms\n",
    "drained": 'version: {version}\nfrom: plain\nevent: SEQ(B a, C c)\nwhere: "[k] AND a.v {operator} c.v"\nwithin: 2 s\non_change: drain\n',
}
CHANGED = {1: "<", 2: ">"}
"""Of the query that drains: by version its operator."""


def events() -> list[list[Event]]:
    """By batch, the events of both streams in order of arrival: every tenth of the plain stream is disturbed, some are late."""
    chance, offsets, made = Random(11), Counter[int](), []
    for number in range(STEPS):
        batch: list[Event] = []
        for place in range(60):
            time = 1000 + 5 * (60 * number + place)
            stream = place % 4 == 3
            late = 0 if stream or chance.random() > 0.1 else chance.choice([10, 25, 60])
            kind = chance.choice("AAABBC")
            values = {
                "k": chance.choice(["x", "y", "ü z"]),
                "v": chance.randrange(4),
                "w": chance.choice([0.5, 1.5, -2.0]),
                "f": chance.random() < 0.5,
            }
            attributes = {name: None if chance.random() < 0.04 else values[name] for name in TYPES[kind]}
            batch.append({"type": kind, "time": time - late, "source": int(stream), "offset": 0, "attributes": attributes})
        for event in batch:
            event["offset"] = offsets[event["source"]]
            offsets[event["source"]] += 1
        made.append(batch)
    return made


def deployed(folder: Path) -> tuple[Deployment, Deployment]:
    """Two deployments, one after the other; under the second one the first version of the query ``drained`` goes on beside a new one."""
    for name, attributes in TYPES.items():
        fields: list[dict[str, Any]] = [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
        fields += [{"name": one, "type": ["null", AVRO[kind]], "default": None} for one, kind in attributes.items()]
        (folder / f"{name}.avsc").write_text(json.dumps({"type": "record", "name": name, "fields": fields}))
    first = _prepared(folder, 1, None)
    return _with_short_names(first), _with_short_names(_prepared(folder, 2, Past(first, {0: 1500})))


def _prepared(folder: Path, version: int, past: Past | None) -> Deployment:
    for name, text in QUERIES.items():
        written = text.replace("{version}", str(version)).replace("{operator}", CHANGED[version])
        (folder / f"{name}.yaml").write_text(f"name: {name}\n{written}", encoding="utf-8")
    common = {"schemas": [f"{name}.avsc" for name in TYPES], "time": "time"}
    streams = {
        "plain": {**common, "topics": [TOPICS[0]], "allowed_lateness": "30 ms"},
        "ordered": {**common, "topics": [TOPICS[1]], "ordered_by": "k"},
    }
    queries = {"paths": [f"{name}.yaml" for name in QUERIES], "models": "models"}
    settings = {"streams": streams, "queries": queries, "spark": {"buckets": 1}, "heartbeat": {"enabled": False}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    _learn(folder)
    read = load_settings(folder / "settings.yaml", {})
    registry = Registry(RegistrySettings("mock://formats"))
    known = read_streams(read, registry)
    return prepare(read, compile_queries(read, known), known, registry, past)


def _learn(folder: Path) -> None:
    """A model for the first query, from a recording of its own."""
    file = folder / "models" / "stacks.model"
    if file.exists():
        return
    chance, lines = Random(5), []
    for number in range(3000):
        kind = chance.choice("AAABBC")
        values = {"k": f"k{chance.randrange(20)}", "v": chance.randrange(4), "w": 0.5, "f": True}
        lines.append({"type": kind, "time": 5 * number, **{name: values[name] for name in TYPES[kind]}})
    (folder / "recording.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.parent.mkdir(exist_ok=True)
    train(queries=[folder / "stacks.yaml"], events=folder / "recording.jsonl", out=file, config=folder / "settings.yaml")


def _with_short_names(deployment: Deployment) -> Deployment:
    """Without the folder in which it was made."""

    def short(texts: QueryTexts | None) -> QueryTexts | None:
        return None if texts is None else replace(texts, files=tuple(replace(file, path=Path(file.path).name) for file in texts.files))

    running = short(deployment.texts)
    assert running is not None
    models = tuple(model and replace(model, file=Path(model.file).name) for model in deployment.models)
    return replace(deployment, files=running.files, models=models, old=tuple(map(short, deployment.old)))


class World:
    """A bucket at work, and the ingress before it.

    Args:
        deployment: what runs.
        bucket: as it is now; a fresh one when not given.
    """

    def __init__(self, deployment: Deployment, bucket: Bucket | None = None) -> None:
        self.deployment = deployment
        self.bucket = bucket or Bucket(deployment.catalog, rules_of(deployment), 0, deployment.topics, tuple_memory)
        self.found: Counter[str] = Counter()

    def move(self, deployment: Deployment) -> None:
        """To another deployment."""
        self.deployment = deployment
        self.bucket = self.bucket.reload(deployment.catalog, rules_of(deployment), deployment.topics)

    def chunks(self, batch: Iterable[Event], decided: Directive) -> list[bytes]:
        """What the ingress makes of a batch: a task for each stream, each shedding as the directive says."""
        events, catalog, chunks = list(batch), self.deployment.catalog, []
        for rules in rules_of(self.deployment):
            plan = IngressPlan(catalog, rules, 1)
            gate = shedding_gate(catalog, plan.selection, decided, self._learned)
            own = [
                {**event, "source": source}
                for event in events
                if rules.owns(source := source_number(self.deployment.topics.index(TOPICS[event["source"]]), 0))
            ]
            ingested = plan.ingest(event_batch(own, TYPES), progress_of(decided), gate)  # type: ignore[arg-type]
            chunks += [packed for _, packed in ingested.packed()]
        return chunks

    def _learned(self, query: int) -> QueryModel:
        stored = self.deployment.models[query]
        assert stored is not None
        return QueryModel(restored(stored), Features.of(self.deployment.catalog.plans[query]))

    def step(self, chunks: Sequence[bytes], progress: Progress) -> None:
        """Feeds the bucket; notes what was found."""
        output = self.bucket.advance(chunks, progress)
        self.bucket.validate()
        for one in output.found:
            plan = self.deployment.catalog.plans[one.query]
            self._note(f"{plan.name} {plan.version} match", composite_events(plan, one.matches, self.deployment.topics))
            if one.timeouts is not None:
                self._note(f"{plan.name} {plan.version} timeout", composite_events(plan, one.timeouts, self.deployment.topics, "timeout"))

    def _note(self, what: str, composites: Iterable[CompositeEvent]) -> None:
        self.found.update(f"{what} {composite.id}" for composite in composites)

    def go_on(self, batches: Sequence[Sequence[Event]], begin: int) -> None:
        """All batches from this one on, to the end of time."""
        for number in range(begin, len(batches)):
            decided = directive(self.deployment, batches, number)
            self.step(self.chunks(batches[number], decided), progress_of(decided))
        self.step([], progress_of(directive(self.deployment, batches, len(batches)), closing=True))


def summary(found: Counter[str]) -> dict[str, list[int | str]]:
    """By query, version and kind, how many composite events, and a hash of their identities."""
    identities: dict[str, list[str]] = {}
    for one in sorted(found.elements()):
        what, _, identity = one.rpartition(" ")
        identities.setdefault(what, []).append(identity)
    return {what: [len(own), hashlib.sha256(" ".join(own).encode()).hexdigest()[:16]] for what, own in identities.items()}


def rules_of(deployment: Deployment) -> list[TimeRules]:
    """Of all streams."""
    return [stream.rules for stream in deployment.streams]


def directive(deployment: Deployment, batches: Sequence[Sequence[Event]], number: int) -> Directive:
    """What the driver could have decided for a batch."""
    times: dict[int, int] = {}
    for event in (event for batch in batches[:number] for event in batch):
        source = source_number(deployment.topics.index(TOPICS[event["source"]]), 0)
        times[source] = max(times.get(source, 0), event["time"])
    report = ShedReport(
        1_780_000_000_000, "stacks", 1, number - 1, "gspice-forest", 0.25, 40, 11, utility_threshold=0.125, latency_bound_ms=1000
    )
    return Directive(
        batch=number,
        deployment=deployment.fingerprint,
        decided_at_ms=1_780_000_000_000 + number,
        seed=7,
        shedding={"stacks": QueryShedding(0.25, "gspice-forest", unshed_latency_ms=1200.5)},
        greatest_times=times,
        sources=tuple(sorted(times)),
        stream_times={"away": 12},
        schema_ids={"cep.stacks-cep.stacks": 4},
        shed_reports=(report,),
        selection={"away": SelectionOrders(Order((1, 0), {1: np.array([-1, -1, 0], dtype=np.int32)}), 100)},
    )


def progress_of(decided: Directive, *, closing: bool = False) -> Progress:
    """What a directive says about time."""
    return Progress(decided.greatest_times, frozenset(decided.sources), frozenset(decided.idle), decided.stream_times, closing)


def before_the_cut(first: Deployment, second: Deployment, batches: Sequence[Sequence[Event]]) -> World:
    """From the beginning to the cut."""
    world = World(first)
    for number in range(CUT):
        if number == CHANGE:
            world.move(second)
        decided = directive(world.deployment, batches, number)
        world.step(world.chunks(batches[number], decided), progress_of(decided))
    return world


def made() -> tuple[Deployment, Deployment]:
    """The deployments, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return deployed(Path(folder))
