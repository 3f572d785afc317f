"""Before a run: models for its shedders, and what `cep evaluate` foretells; after it: who was in the control sample. By the commands that people use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from app.audit.verdicts import control_sample
from app.bucket.route import partition_keys
from app.config.settings import Settings
from app.events.batch import Column, Dictionary, EventBatch, empty_batch
from app.events.registry import Registry, registry_settings
from app.events.types import Kind
from app.local.generators.json_lines import json_lines
from app.pipeline.preparation import compile_queries, read_streams
from ops.bench.overload.capacity import Capacity
from ops.bench.overload.load import recorded
from ops.bench.overload.workloads import ROOT, Workload
from shedding.registry import METHODS

SAFETY = 0.8
"""Of the bound: where latencies settle, by default; a batch takes half of it."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of a stream before it is sent.

    Attributes:
        folder: where files are put.
        events: that are known.
        sent: that will be sent.
    """

    folder: Path
    events: int
    sent: int


def recording(workload: Workload, before: Before) -> tuple[Path, Path]:
    """The stream's events before those that are sent as a file, and settings to read them by."""
    file, settings = before.folder / f"{workload.label}.jsonl", before.folder / f"{workload.label}-settings.yaml"
    unused = {"kafka": {"bootstrap_servers": "unused:9092"}, "schema_registry": {"url": "http://unused"}}
    settings.write_text(yaml.safe_dump({**unused, "streams": workload.streams}))
    if not file.exists():
        with file.open("wb") as lines:
            lines.writelines(json_lines(recorded(workload, before.sent, before.events)))
    return file, settings


def train(workload: Workload, shedder: str, before: Before) -> Path | None:
    """Models for the queries with a bound, or None where the shedder learns nothing."""
    if not METHODS[shedder].learns:
        return None
    file, settings = recording(workload, before)
    models = before.folder / "models" / workload.label / shedder
    if not models.exists():
        models.mkdir(parents=True)
        for query in workload.bounds_ms:
            text = models / f"{query}.yaml"
            text.write_text(workload.texts(shedder)[query])
            _cep(
                "train", "--queries", text, "--events", file, "--config", settings, "--out", models / f"{query}.model", "--shedder", shedder
            )
            text.unlink()
    return models


def foretold(
    workload: Workload, shedders: Sequence[str], shares: Sequence[float], before: Before, capacity: Capacity
) -> dict[tuple[str, str, str], float]:
    """Recall by query (the first that has a bound), shedder and name of the rate, as `cep evaluate --measured` has it.

    It is told what of the application's work is the query's own, and rates are multiples of what the application manages in batches as short as the bound wants them: what batches take anyway is more of these.
    """
    file, settings = recording(workload, before)
    query, bound_ms = next(iter(workload.bounds_ms.items()))
    shortened = capacity.per_s / capacity.in_batches_of(SAFETY * bound_ms / 2)
    text, out = before.folder / f"{query}.yaml", before.folder / f"{query}-foretold.json"
    text.write_text(workload.texts(None)[query])
    options = ["--queries", text, "--events", file, "--config", settings, "--selected", "--measured", "--json", out]
    options += ["--own-share", capacity.own.get(query, 1.0)]
    for shedder in shedders:
        options += ["--shedder", shedder]
    for share in shares:
        options += ["--rate", round(share * shortened, 3)]
    _cep("evaluate", *options)
    names = {round(share * shortened, 3): f"{share:.0%}" for share in shares}
    return {(query, one["shedder"], names[one["rate"]]): one["recall"] for one in json.loads(out.read_text())[0]["standings"]}


def touched_by_sample(settings: Settings, query: str, ends: Mapping[str, tuple[str | None, int]]) -> frozenset[str]:
    """Those of the matches that have something to do with events of the control sample of a query with one partition attribute, a text: live estimates do not speak of them.

    Args:
        ends: by identity, partition key and event time of the last event.
    """
    catalog = compile_queries(settings, read_streams(settings, Registry(registry_settings(settings.schema_registry)))).catalog
    group, plan = next(
        (group, plan) for group in catalog.groups for plan in (catalog.plans[number] for number in group.queries) if plan.name == query
    )
    sample = control_sample(plan, settings.audit.sample)
    known = [(identity, key, time) for identity, (key, time) in ends.items() if key is not None]
    if sample is None or not known:
        return frozenset()
    codes = np.arange(len(known), dtype=np.int32)
    column = Column(Kind.STRING, codes, None, Dictionary.of([key.encode() for _, key, _ in known]))
    times = np.array([time for _, _, time in known], dtype=np.int64)
    batch = EventBatch(times, np.zeros_like(times), np.zeros_like(times), empty_batch().type, {group.equivalence[0]: column})
    keys = partition_keys(batch, np.arange(len(known)), group).hashes
    held = sample.holds(keys, times) | sample.holds(keys, times - (sample.before_ms or 0))
    return frozenset(identity for (identity, _, _), one in zip(known, held.tolist(), strict=True) if one)


def _cep(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "app", *map(str, arguments)], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
