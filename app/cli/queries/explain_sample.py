"""``cep explain --sample FILE``: what a query costs per event, measured on a file of events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from app.asc.selection import Selection
from app.bucket.matching import GroupMatching
from app.bucket.recording import rows_between
from app.cep.door import way_of
from app.cep.engine import Watermarks
from app.cli.inputs.events import ReplayInput
from app.events.batch import EventBatch
from app.owners.tuple_memory import tuple_memory
from app.query.plan import Catalog, Plan

SLICES = 32
"""Parts of the sample; after each of them the live partial matches are counted."""
FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run over the sample showed; ``live``: the most partial matches (runs, chains) or stored events (stacks, alternatives) after a part, before the end."""

    events: int
    candidates: int
    matches: int
    timeouts: int
    limited: int
    live: int
    seconds: float


def measured(plan: Plan, source: ReplayInput) -> Cost:
    """Matches the sample twice, the second time with the clock."""
    events = source.sorted_events(plan.streams)
    _run(plan, events)
    return _run(plan, events)


def _run(plan: Plan, events: EventBatch) -> Cost:
    catalog = Catalog.of((plan,))
    selection, matching = Selection(catalog, None), GroupMatching(catalog, 0, memory_of=tuple_memory)
    candidates = matches = timeouts = limited = live = 0
    started = time.perf_counter()
    for part, watermark in _parts(events):
        selected = selection.select(part)
        candidates += len(selected.relevant)
        for found in matching.feed_selected(part, selected, watermark):
            matches += len(found.matches)
            timeouts += 0 if found.timeouts is None else len(found.timeouts)
            limited += found.tally.limited_matches + found.tally.limited_runs
            if watermark.default_ms < FOREVER:
                live = max(live, found.tally.live_events)
    return Cost(len(events), candidates, matches, timeouts, limited, live, time.perf_counter() - started)


def _parts(events: EventBatch) -> Iterator[tuple[EventBatch, Watermarks]]:
    """Parts of the sample, each with the time that has come when it is over; then the end of all time."""
    step = max(1, -(-len(events) // SLICES))
    for start in range(0, len(events), step):
        part = rows_between(events, start, start + step)
        yield part, Watermarks(int(part.time[-1]))
    yield rows_between(events, len(events), len(events)), Watermarks(FOREVER, end_ms=int(events.time[-1]) if len(events) else None)


def cost_text(plan: Plan, cost: Cost, path: str) -> str:
    """The cost for people."""
    events = max(1, cost.events)
    stacked = plan.temporal is None and way_of(plan) in ("stacks", "alternatives")
    live = "stored tuples" if plan.temporal is not None else "events on stacks" if stacked else "live partial matches"
    lines = [
        f"cost, measured on the {cost.events:,} events of {path} (one core, from arrays in memory):",
        f"  {1e6 * cost.seconds / events:.2f} us per event: {cost.events / max(cost.seconds, 1e-9):,.0f} events/s",
        f"  candidates: {cost.candidates:,} ({cost.candidates / events:.1%}); the others cost the selection only",
        f"  matches: {cost.matches:,} ({cost.matches / events:.3g} per event)"
        + (f", timeouts: {cost.timeouts:,}" if cost.timeouts else ""),
        f"  {live}: at most {cost.live:,} at {SLICES} points of the sample",
    ]
    if cost.limited:
        lines.append(f"  limits were reached: {cost.limited:,} matches or partial matches were not made")
    return "\n".join(lines) + "\n"
