"""Stored things of every format there has been: this version goes on from them, and finds what was to be found."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from app.bucket.bucket import Bucket
from app.bucket.family import is_family_state
from app.bucket.snapshot import unpack_parts
from app.cep.snapshot.state import engine_of
from app.control.messages.directives import Directive
from app.owners.deployment import Deployment, load_deployment
from app.owners.tuple_memory import tuple_memory
from tests.golden.formats.scenario import CUT, World, before_the_cut, directive, progress_of, rules_of, summary
from tests.naive.language import Event

FOLDERS = sorted((Path(__file__).parent / "formats").glob("v*"))
pytestmark = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@cache
def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


@cache
def batches(folder: Path) -> list[list[Event]]:
    made: list[list[Event]] = json.loads((folder / "events.json").read_text(encoding="utf-8"))
    return made


def deployments(folder: Path) -> tuple[Deployment, Deployment]:
    first, second = (load_deployment(str(folder), name) for name in expected(folder)["deployments"])
    return first, second


def snapshot_of(folder: Path) -> bytes:
    return (folder / "snapshot.bin").read_bytes()


def stored_directive(folder: Path) -> Directive:
    return Directive.from_json((folder / "directive.json").read_bytes())


def test_a_deployment_is_planned_as_it_was_so_that_state_survives(folder: Path) -> None:
    plans = deployments(folder)[1].catalog.plans
    assert [[plan.name, plan.version, plan.fingerprint] for plan in plans] == expected(folder)["plans"]
    assert [plan.name for plan in plans if plan.draining is not None] == ["drained"]


def test_a_directive_is_what_it_was(folder: Path) -> None:
    stored, second = stored_directive(folder), deployments(folder)[1]
    assert stored.deployment == expected(folder)["deployments"][1]
    wanted = directive(second, batches(folder), CUT).to_plain() | {"deployment": stored.deployment}
    assert stored.to_plain() == wanted


def test_the_snapshot_holds_every_kind_of_state(folder: Path) -> None:
    parts = unpack_parts(snapshot_of(folder))
    engines = [part for name, part in parts.items() if name.startswith("engine-")]
    assert {"family" if is_family_state(part) else engine_of(part) for part in engines} == {
        "family",
        "stacks",
        "runs",
        "chains",
        "coalesce",
    }
    assert {name.partition("-")[0] for name in parts} >= {"bucket", "held", "keys", "times", "engine", "order"}
    assert max(len(part) for name, part in parts.items() if name.startswith("held-")) > 1000, "events wait"


def test_it_goes_on_from_the_snapshot_with_the_stored_chunks(folder: Path) -> None:
    _, second = deployments(folder)
    bucket = Bucket.restore(second.catalog, rules_of(second), 0, snapshot_of(folder), second.topics, memory_of=tuple_memory)
    world = World(second, bucket)
    world.step([path.read_bytes() for path in sorted(folder.glob("chunk-*.bin"))], progress_of(stored_directive(folder)))
    world.go_on(batches(folder), CUT + 1)
    assert summary(world.found) == expected(folder)["after"]


def test_an_undisturbed_run_from_the_beginning_finds_the_same(folder: Path) -> None:
    world = before_the_cut(*deployments(folder), batches(folder))
    assert summary(world.found) == expected(folder)["before"]
    world.found = Counter()
    world.go_on(batches(folder), CUT)
    assert summary(world.found) == expected(folder)["after"]
    every = {f"{name} {version} match" for name, version, _ in expected(folder)["plans"]}
    assert every | {"branches 1 timeout"} == set(summary(world.found)), "whatever is kept has something to find"
