"""Events that no query reads: the reason why queries over a file silently find nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from app.cli.inputs.events import ReplayInput
from app.errors import Finding, Severity
from app.events.batch import Column
from app.query.plan import QUERY_STREAM, Plan
from app.similar import closest

MAX_NAMES = 12
"""Streams, or types, that are listed."""


def unread_events(source: ReplayInput, plans: Sequence[Plan]) -> list[Finding]:
    """Warnings about events of streams that no query reads, and about a file without any event of a type that queries name.

    Args:
        source: the events.
        plans: of the queries that are run over them.
    """
    return [*_unread_streams(source, plans), *unread_types(_types(source), plans)]


def _unread_streams(source: ReplayInput, plans: Sequence[Plan]) -> Iterable[Finding]:
    """Streams of the settings may be there for other queries."""
    own = {} if source.settings is None else source.settings.streams
    read = {*own, *(stream for plan in plans for stream in plan.streams)}
    unread = [(name, count) for name, count in _counted(source.file.streams) if name not in read] if plans else []
    for name, count in unread[:MAX_NAMES]:
        events = f"{count:,} events name" if count > 1 else "1 event names"
        if own:
            hint = f"streams of the settings are {_listed(own)}"
        else:
            hint = f'write from: {name} in the query, or leave "stream" out of the events'
        yield Finding(f'{events} the stream "{name}", which no query reads', None, hint, Severity.WARNING)


def _types(source: ReplayInput) -> list[str]:
    """Of the events as streams of the settings have them, which may be those of an attribute; where none is an event of theirs, as they were read."""
    streams = () if source.settings is None else source.settings.streams
    own = dict.fromkeys(name for stream in streams for name, _ in _counted(source.of_stream(stream).batch.type))
    return list(own) or [one.name for one in source.file.schema.types]


def _counted(names: Column | None) -> list[tuple[str, int]]:
    """Streams, or types, that events name, and how many name each."""
    if names is None or names.dictionary is None:
        return []
    codes = names.values if names.state is None else names.values[names.state == 0]
    counts = np.bincount(codes, minlength=len(names.dictionary))
    found: dict[str, int] = {}
    for entry, count in zip(names.dictionary.entries(), counts.tolist(), strict=True):
        if count:
            found[entry.decode()] = found.get(entry.decode(), 0) + count
    return list(found.items())


def unread_types(types: Sequence[str], plans: Sequence[Plan]) -> list[Finding]:
    """A warning where no event has a type that the queries name. Those that read other queries name composite events, which no file has.

    Args:
        types: of the events.
        plans: of the queries.
    """
    items = [item for plan in plans for item in plan.items]
    of_file = (plan for plan in plans if not any(stream.startswith(QUERY_STREAM) for stream in plan.streams))
    named = dict.fromkeys(name for plan in of_file for item in plan.items for name in item.types)
    if not types or not named or not all(item.types for item in items) or {name for item in items for name in item.types} & set(types):
        return []
    message = f"no event has a type that the queries name ({_listed(named)}); types in the file: {_listed(types)}"
    return [Finding(message, None, _meant(named, types), Severity.WARNING)]


def _meant(named: Iterable[str], types: Sequence[str]) -> str | None:
    near = {name: found for name in named if (found := closest(name, types)) is not None}
    if not near:
        return None
    pairs = ", ".join(f'"{found}" for "{name}"' for name, found in list(near.items())[:MAX_NAMES])
    cased = all(name.casefold() == found.casefold() for name, found in near.items())
    return f"did you mean {pairs}?" + (" types are told apart by case" if cased else "")


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:MAX_NAMES]) + (", …" if len(listed) > MAX_NAMES else "")
