"""Before a run: models for its shedders, and what `cep evaluate` foretells. By the commands that people use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from app.local.generators.json_lines import json_lines
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


def _cep(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "app", *map(str, arguments)], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
