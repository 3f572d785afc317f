"""What `cep replay` writes: composite events of all queries in one order, as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from app.bucket.composite import composite_events, json_fields, plain_values
from app.bucket.matching import Found
from app.cli.replay_input import ReplayInput
from app.query.plan import Catalog, Plan


@dataclass(frozen=True, slots=True)
class Written:
    """A composite event, and where it belongs among all.

    Attributes:
        order: match time, then (time, source, offset) of its events, then the query's name.
    """

    order: tuple[Any, ...]
    composite: dict[str, Any]


def json_lines(catalog: Catalog, found: Sequence[Found], events: ReplayInput, *, identities: bool = False) -> Iterator[bytes]:
    """All composite events as JSON lines: by match time, then their events in total order, then query name.

    Args:
        catalog: what ``found`` speaks of.
        found: matches of all queries.
        events: what they were found in.
        identities: write each composite event's ``id``, too.
    """
    parts = [part for one in found for part in _written(catalog.plans[one.query], one, events, identities=identities)]
    parts.sort(key=lambda written: written.order)
    for written in parts:
        yield orjson.dumps(written.composite) + b"\n"


def _written(plan: Plan, one: Found, events: ReplayInput, *, identities: bool) -> Iterator[Written]:
    """Column by column first: a match costs about 3 µs so, 20 µs object by object."""
    matches = one.matches
    table = matches.events
    variables = [item.variable for item in plan.positive]
    columns = [matches.rows[:, place] for place in range(matches.rows.shape[1])]
    positions = [_lines(events, table.source[rows], table.offset[rows]) for rows in columns]
    places = [list(zip(table.time[r].tolist(), table.source[r].tolist(), table.offset[r].tolist(), strict=True)) for r in columns]
    names = [returned.name for returned in plan.returns]
    fields = [plain_values(matches.fields[returned.name], returned.kind) for returned in plan.returns]
    ids = [event.id for event in composite_events(plan, matches, events.file.topics or plan.streams[:1])] if identities else None
    for k, time in enumerate(matches.time.tolist()):
        composite = {
            "query": plan.name,
            "version": plan.version,
            "time": time,
            "window": None,
            "fields": json_fields({name: column[k] for name, column in zip(names, fields, strict=True)}),
            "events": [{"var": var, "position": own[k]} for var, own in zip(variables, positions, strict=True)],
        }
        if ids is not None:
            composite = {"id": ids[k], **composite}
        yield Written((time, tuple(place[k] for place in places), plan.name), composite)


def _lines(events: ReplayInput, source: NDArray[np.int64], offset: NDArray[np.int64]) -> list[int]:
    lines: list[int] = events.lines_of(source, offset).tolist()
    return lines
