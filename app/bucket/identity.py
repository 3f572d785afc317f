"""The stable identity of a match.

The first 128 bits of SHA-256 over query name, version, window number and, in total order, (variable, topic, partition,
offset) of the bound events, as hexadecimal text; of a partial match that timed out also the word ``timeout``, so that it is told from a
match of the same events. It depends on the input alone: batching, restarts and the number of buckets do not show. The place of an event of a topic that
was deleted and created again says so (``topic#2``), or identities would be repeated with the offsets.

**Window numbers.** Those of time and count windows are numbers; that of a window which an event opened is the event's place,
``topic/partition/offset`` (in `cep replay`, its line).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.bucket.chunk import compacted
from app.bucket.encoding.pieces import Elements, Texts, cells_of, decimals, put_together, repeated, spans, template_of
from app.bucket.places import Places, named_topics
from app.cep.matches import EventTable, Matches
from app.events.batch import Column
from app.events.types import Kind
from app.query.plan import Plan

SEPARATOR = "\x1f"
ANONYMOUS = " "
"""Stands for no variable: a blank cannot be part of one."""
BYTES = 16
"""Of the hash that are kept; as text twice as many."""
PLACE_DIGITS = 15
"""Of the hexadecimal digits of a composite event's id so many are its offset where it is read as an event: 60 bit."""

Outcome = Literal["match", "timeout"]
"""What became of a partial match: it was completed, or it ran out of its window."""


def identities_of(plan: Plan, matches: Matches, topics: Sequence[str], kind: Outcome = "match") -> list[str]:
    """The identities of a query's matches, in their order.

    Args:
        plan: of the query.
        matches: what its engine found.
        topics: by number (`app.events.topics`).
        kind: what became of them.
    """
    bound = matches.constituents([item.index for item in plan.positive])
    return identities(
        plan,
        kind,
        window_texts(plan, matches, topics),
        Elements(bound.starts, bound.items, places_of(plan, matches.events, bound.rows, topics).texts(SEPARATOR)),
    )


def identities(plan: Plan, kind: Outcome, windows: Texts | None, events: Elements) -> list[str]:
    """As `identities_of`.

    Args:
        plan: of the query.
        kind: of all.
        windows: the numbers of the matches' windows; None without windows.
        events: of each match in total order: indices into `Plan.items`, and places (`Places.texts`).
    """
    head = f"{plan.name}{SEPARATOR}{plan.version}{SEPARATOR}".encode()
    variables = [f"{SEPARATOR}{item.variable or ANONYMOUS}{SEPARATOR}".encode() for item in plan.items]
    end = f"{SEPARATOR}{kind}".encode() if kind == "timeout" else b""
    windows = repeated(b"", len(events.bounds) - 1) if windows is None else windows
    hashed = put_together(template_of([head, b""], variables, b"", end), cells_of([windows], events))
    digits = b"".join([sha256(span).digest()[:BYTES] for span in spans(hashed)]).hex()
    return [digits[start : start + 2 * BYTES] for start in range(0, len(digits), 2 * BYTES)]


def places_of(plan: Plan, events: EventTable, rows: NDArray[np.int64], topics: Sequence[str]) -> Places:
    """Where some of the events stand."""
    return Places.of(events.source[rows], events.offset[rows], event_types(events, rows), named_topics(plan, topics))


def event_types(events: EventTable, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """Codes (rows,) of the types of some of the events, and the types that they stand for."""
    types = compacted(Column(Kind.STRING, events.type.values[rows], None, events.type.dictionary))
    entries = [] if types.dictionary is None else types.dictionary.entries()
    return types.values.astype(np.int64), [entry.decode(errors="replace") for entry in entries]


def window_texts(plan: Plan, matches: Matches, topics: Sequence[str]) -> Texts | None:
    """Per match the number of its window, as identities have it; None without windows."""
    if matches.windows is None:
        return None
    if not opener_windows(plan):
        return decimals(matches.windows)
    return places_of(plan, matches.events, matches.windows, topics).texts("/")


def opener_windows(plan: Plan) -> bool:
    """Whether events open the plan's windows: `Matches.windows` are then places in its events."""
    return plan.runs is not None and plan.runs.window is not None and plan.runs.window.slide is None


def place_of(identity: str) -> int:
    """The offset that a composite event has where it is read as an event.

    >>> place_of("00000000000000a9f3d6a1d9b0e2c480")
    10
    """
    return int(identity[:PLACE_DIGITS], 16)
