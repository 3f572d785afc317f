"""What `cep replay` writes: composite events of all queries in one order, as JSON lines, while they are found or at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.bucket.identity import Outcome
from app.bucket.matching import Found
from app.cep.matches import Matches
from app.cli.inputs.events import ReplayInput
from app.cli.replay.composites import ReadComposites
from app.cli.replay.lines import line_blocks
from app.cli.replay.matches import QueryMatches
from app.query.plan import Catalog


def json_lines(catalog: Catalog, found: Sequence[Found], events: ReplayInput, *, identities: bool = False) -> Iterator[bytes]:
    """All composite events and timeouts as JSON lines, many at a time: by match time, then their events in total order, then query name.

    Args:
        catalog: what ``found`` speaks of.
        found: matches of all queries.
        events: what they were found in.
        identities: write each composite event's ``id``, too.
    """
    topics = events.file.topics
    return line_blocks(ordered_queries(catalog, found, topics), events.line_finder(), topics if identities else None)


def ordered_queries(catalog: Catalog, found: Sequence[Found], topics: Sequence[str]) -> list[QueryMatches]:
    """The matches, and the timeouts, of all queries."""
    steps = steps_of(found)
    read = ReadComposites.of(catalog, {query: own for (query, kind), own in steps.items() if kind == "match"}, topics)
    return [QueryMatches.of(catalog.plans[query], own, kind, read) for (query, kind), own in steps.items()]


def steps_of(found: Sequence[Found]) -> dict[tuple[int, Outcome], list[Matches]]:
    """Per query and kind the tables of all steps."""
    own: dict[tuple[int, Outcome], list[Matches]] = {}
    for one in found:
        if len(one.matches):
            own.setdefault((one.query, "match"), []).append(one.matches)
        if one.timeouts is not None and len(one.timeouts):
            own.setdefault((one.query, "timeout"), []).append(one.timeouts)
    return own
