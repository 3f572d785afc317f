"""What `cep replay` writes: composite events of all queries in one order, as JSON lines.

Sorted as arrays and made into objects block by block: millions of matches as objects would take gigabytes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from app.bucket.composite import Outcome
from app.bucket.matching import Found
from app.cep.matches import Matches
from app.cli.replay_composites import ReadComposites
from app.cli.replay_input import LineFinder, ReplayInput
from app.cli.replay_matches import QueryMatches
from app.query.plan import Catalog


def json_lines(catalog: Catalog, found: Sequence[Found], events: ReplayInput, *, identities: bool = False) -> Iterator[bytes]:
    """All composite events and timeouts as JSON lines: by match time, then their events in total order, then query name.

    Args:
        catalog: what ``found`` speaks of.
        found: matches of all queries.
        events: what they were found in.
        identities: write each composite event's ``id``, too.
    """
    finder, topics = events.line_finder(), events.file.topics if identities else None
    steps = _steps(found)
    read = ReadComposites.of(catalog, {query: own for (query, kind), own in steps.items() if kind == "match"}, events.file.topics)
    queries = [QueryMatches.of(catalog.plans[query], own, kind, read) for (query, kind), own in steps.items()]
    if len(queries) == 1:
        return (orjson.dumps(c) + b"\n" for block in queries[0].blocks() for c in block.composites(finder, topics))
    merged = heapq.merge(*(_ordered(query, finder, topics) for query in queries))
    return (line for _, line in merged)


def _steps(found: Sequence[Found]) -> dict[tuple[int, Outcome], list[Matches]]:
    """Per query and kind the tables of all steps."""
    own: dict[tuple[int, Outcome], list[Matches]] = {}
    for one in found:
        if len(one.matches):
            own.setdefault((one.query, "match"), []).append(one.matches)
        if one.timeouts is not None and len(one.timeouts):
            own.setdefault((one.query, "timeout"), []).append(one.timeouts)
    return own


def _ordered(query: QueryMatches, finder: LineFinder, topics: Sequence[str] | None) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    for block in query.blocks():
        for order, composite in zip(block.orders(), block.composites(finder, topics), strict=True):
            yield order, orjson.dumps(composite) + b"\n"
