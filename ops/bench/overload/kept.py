"""Runs without shedding that are kept between calls: equal events lie at equal places whoever is shed by, so one of ten minutes serves all shedders."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from app.config.settings import Settings
from ops.bench.overload.load import Schedule
from ops.bench.overload.runs import Run
from ops.bench.overload.workloads import Workload


def whole(folder: Path | None, settings: Settings, workload: Workload, schedule: Schedule, make: Callable[[], Run]) -> Run:
    """The one of this stream, from an earlier call or made now.

    Args:
        folder: where they are; None: nothing is kept.
        settings: of a run over the same stream.
        workload: whose queries.
        schedule: how many events there are, and of which stream, follows from it.
        make: the run.
    """
    if folder is None:
        return make()
    stream = repr((sorted(workload.queries.items()), workload.stream, workload.events_per_event_s, int(schedule.counts[-1])))
    file = folder / f"{workload.label}-{sha256(stream.encode()).hexdigest()[:12]}.pickle"
    if file.exists():
        return Run(workload, settings, pickle.loads(file.read_bytes()), {}, {}, {})
    made = make()
    folder.mkdir(parents=True, exist_ok=True)
    file.write_bytes(pickle.dumps(made.composites))
    return made
