"""What `cep replay` writes, match by match and object by object: the twin of `app.cli.replay.lines`."""

from __future__ import annotations

from itertools import pairwise

import orjson

from app.bucket.places import COMPOSITES
from app.bucket.values import field_values, json_fields


def plain_lines(queries, finder, topics=None):
    """JSON lines of all matches: by match time, then (time, source, place) of their events, then query name."""
    lines = [line for query in queries for line in _lines(query, finder, topics)]
    return [line for _, line in sorted(lines, key=lambda one: one[0])]


def _lines(query, finder, topics):
    plan, bound = query.plan, query.bound
    names = [returned.name for returned in plan.returns]
    fields = [
        field_values(query.lists[returned.name] if returned.name in query.lists else query.fields.columns[returned.name], returned.kind)
        for returned in plan.returns
    ]
    variables = [item.variable for item in plan.items]
    positions = [_position(query, finder, *place) for place in zip(bound.source.tolist(), bound.offset.tolist(), strict=True)]
    places = list(zip(bound.time.tolist(), bound.source.tolist(), bound.place.tolist(), strict=True))
    identities = None if topics is None else query.identities(topics)
    for k, (start, stop) in enumerate(pairwise(bound.starts.tolist())):
        composite = {} if identities is None else {"id": identities[k]}
        if query.kind == "timeout":
            composite["kind"] = "timeout"
        items = bound.item[start:stop].tolist()
        composite |= {
            "query": plan.name,
            "version": plan.version,
            "time": int(query.fields.time[k]),
            "window": _window(query, finder, k),
            "fields": json_fields({name: column[k] for name, column in zip(names, fields, strict=True)}),
            "events": [{"var": variables[item], "position": positions[start + j]} for j, item in enumerate(items)],
        }
        order = (int(query.fields.time[k]), places[start:stop], plan.name, query.kind, int(query.windows.number[k]), items)
        yield order, orjson.dumps(composite) + b"\n"


def _position(query, finder, source, offset):
    if source == COMPOSITES:
        return f"{query.read.query[offset]}/{query.read.number[offset]}"
    if finder.places is None:
        return offset
    return int(finder.lines[list(finder.places).index(complex(source, offset))])


def _window(query, finder, k):
    windows = query.windows
    if not windows.known:
        return None
    number = int(windows.number[k])
    return number if windows.source is None else _position(query, finder, int(windows.source[k]), number)
