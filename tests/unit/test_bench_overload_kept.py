"""The overload bench's run without shedding is kept between calls, for the same stream and queries and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ops.bench.overload.kept import whole
from ops.bench.overload.load import Phase, Schedule
from ops.bench.overload.runs import Composite, Run
from ops.bench.overload.workloads import WORKLOADS

SETTINGS: Any = object()


def test_a_run_is_made_once_for_its_stream(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> Run:
        made.append(len(made))
        return Run(WORKLOADS["mixed"], SETTINGS, {"dear": {f"id-{made[-1]}": Composite("k", ((0, 7),), 5.0, 3)}}, {}, {}, {})

    workload, schedule = WORKLOADS["mixed"], Schedule((Phase("120%", 1.2, 10),), 100)
    first = whole(tmp_path / "runs", SETTINGS, workload, schedule, make)
    again = whole(tmp_path / "runs", SETTINGS, workload, schedule, make)
    assert first.composites == again.composites
    assert again.settings is SETTINGS
    assert made == [0]
    whole(tmp_path / "runs", SETTINGS, workload, replace(schedule, capacity=200.0), make)  # twice as many events
    whole(tmp_path / "runs", SETTINGS, replace(workload, queries={**workload.queries, "dear": "name: dear"}), schedule, make)
    whole(None, SETTINGS, workload, schedule, make)
    assert len(made) == 4
    assert cast("Any", whole(tmp_path / "runs", SETTINGS, workload, schedule, make)).composites == first.composites
