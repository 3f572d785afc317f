"""An automaton as a picture: states in columns by how many steps they are from the start, arrows between them, what an arrow needs written on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from app.console.svg import element, number, picture

NODE_WIDTH, NODE_HEIGHT = 148.0, 46.0
LEAST_GAP, ROW = 84.0, 104.0
MARGIN_X, MARGIN_Y = 34.0, 30.0
LOOP = 58.0
"""Room for arrows that lead back."""
LETTER = 5.6
"""Width of a small letter, on average."""
LETTERS = 20
"""That fit into a node."""
LABEL = 30
"""Letters that fit between two."""
CONDITIONS = 2
"""That are written under an arrow; the list has all."""

State = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a state is: the middle of its box."""

    x: float
    y: float
    column: int = 0


def drawing(automaton: Mapping[str, Any], name: str) -> Markup:
    """The picture of what `app.console.automaton.automaton` gave; nothing where there are no states.

    Args:
        automaton: of a query.
        name: of the query.
    """
    states: Sequence[State] = automaton["states"]
    if not states:
        return Markup("")
    places = placed(states)
    loops = any(edge["to"] == state["state"] for state in states for edge in state["edges"])
    places = {state: replace(place, y=place.y + (LOOP if loops else 0.0)) for state, place in places.items()}
    width = max(place.x for place in places.values()) + NODE_WIDTH / 2 + MARGIN_X
    back = any(places[edge["to"]].x < places[state["state"]].x for state in states for edge in state["edges"] if edge["to"] in places)
    height = max(place.y for place in places.values()) + NODE_HEIGHT / 2 + MARGIN_Y + (LOOP if back else 0.0)
    drawn = [_arrowhead(name), _beginning(places[states[0]["state"]], name)]
    for state in states:
        drawn += _arrows(state, places, name)
    drawn += [_node(state, places[state["state"]]) for state in states]
    label = f"Automaton of {name}"
    size = {"width": width, "height": height, "viewBox": f"0 0 {number(width)} {number(height)}"}
    return picture(label, described(states), drawn, name=f"automaton-{name}", class_="automaton", **size)


def described(states: Sequence[State]) -> str:
    """What can be seen, in a sentence; the list under the picture says all of it."""
    ends = [str(state["state"]) for state in states if state["ends"]]
    return (
        f"{len(states)} states; a match can end in state {', '.join(ends) or 'none'}. The list below says what leads from each to the next."
    )


def gap(states: Sequence[State]) -> float:
    """Between columns: as much as the longest text on an arrow takes."""
    texts = [text for state in states for edge in state["edges"] for text in (edge["item"], *edge["decides"][:CONDITIONS])]
    return max(LEAST_GAP, 24 + LETTER * min(LABEL, max(map(len, texts), default=0)))


def placed(states: Sequence[State]) -> dict[int, Position]:
    """By state: columns by distance from the first, rows in the order in which they are found."""
    width = NODE_WIDTH + gap(states)
    depths = {states[0]["state"]: 0}
    known = {state["state"]: state for state in states}
    waiting = [states[0]["state"]]
    while waiting:
        own = waiting.pop(0)
        for edge in known[own]["edges"]:
            if edge["to"] in known and edge["to"] not in depths:
                depths[edge["to"]] = depths[own] + 1
                waiting.append(edge["to"])
    columns: dict[int, list[int]] = {}
    for state in states:
        columns.setdefault(depths.get(state["state"], 0), []).append(state["state"])
    tallest = max(map(len, columns.values()))
    return {
        state: Position(
            MARGIN_X + NODE_WIDTH / 2 + depth * width, MARGIN_Y + NODE_HEIGHT / 2 + (row + (tallest - len(column)) / 2) * ROW, depth
        )
        for depth, column in columns.items()
        for row, state in enumerate(column)
    }


def _node(state: State, place: Position) -> Markup:
    x, y = place.x - NODE_WIDTH / 2, place.y - NODE_HEIGHT / 2
    boxes = [element("rect", x=x, y=y, width=NODE_WIDTH, height=NODE_HEIGHT, rx=8, class_="node")]
    if state["ends"]:
        boxes.append(element("rect", x=x + 4, y=y + 4, width=NODE_WIDTH - 8, height=NODE_HEIGHT - 8, rx=5, class_="inner"))
    left = f"{state['left']} left" if state["left"] != "nothing" else "complete"
    texts = [
        element("text", [str(state["state"])], x=place.x, y=place.y - 4, class_="number"),
        element(
            "text",
            [left if len(left) <= LETTERS else clipped(left.removesuffix(" left"), LETTERS)],
            x=place.x,
            y=place.y + 13,
            class_="left",
        ),
    ]
    return element("g", [element("title", [f"state {state['state']}: {left}"]), *boxes, *texts])


def _arrows(state: State, places: Mapping[int, Position], name: str) -> Iterator[Markup]:
    """One arrow to each of the next states, whatever number of ways lead there."""
    ways: dict[int, list[Mapping[str, Any]]] = {}
    for edge in state["edges"]:
        ways.setdefault(edge["to"], []).append(edge)
    for target, edges in ways.items():
        if target in places:
            yield _arrow(places[state["state"]], places[target], edges, name)


def way(edge: Mapping[str, Any]) -> str:
    """What an arrow needs.

    >>> way({"item": "b", "decides": ["b.x > a.x"], "until": False})
    'b if b.x > a.x'
    """
    if edge["until"]:
        return f"UNTIL of {edge['item']}"
    return f"{edge['item']} if {' and '.join(edge['decides'])}" if edge["decides"] else str(edge["item"])


def _arrow(start: Position, end: Position, edges: Sequence[Mapping[str, Any]], name: str) -> Markup:
    """Over it what comes, under it what that needs; the whole of it where the pointer rests."""
    path, x, y = _curve(start, end)
    lines = [clipped(f"UNTIL of {edge['item']}" if edge["until"] else edge["item"], LABEL) for edge in edges[:3]]
    lines += [f"… {len(edges) - 3} more"] if len(edges) > 3 else []
    texts = [element("text", [line], x=x, y=y - 14 * (len(lines) - 1 - k), class_="way") for k, line in enumerate(lines)]
    needs = list(dict.fromkeys(one for edge in edges for one in edge["decides"])) if end.x > start.x else []  # elsewhere is no room
    shown = [clipped(one, LABEL) for one in needs[:CONDITIONS]] + ([f"… {len(needs) - CONDITIONS} more"] if len(needs) > CONDITIONS else [])
    texts += [element("text", [line], x=x, y=y + 24 + 13 * k, class_="needs") for k, line in enumerate(shown)]
    drawn = element("path", d=path, class_="arrow", marker_end=f"url(#arrow-{name})")
    return element("g", [element("title", [" / ".join(map(way, edges))]), drawn, *texts])


def _curve(start: Position, end: Position) -> tuple[str, float, float]:
    """The path, and where its text stands."""
    half_width, half_height = NODE_WIDTH / 2, NODE_HEIGHT / 2
    if start == end:
        y = start.y - half_height
        d = f"M{number(start.x - 22)} {number(y)}C{number(start.x - 34)} {number(y - 34)} {number(start.x + 34)} {number(y - 34)} {number(start.x + 22)} {number(y - 3)}"
        return d, start.x, y - 32
    if end.x > start.x:
        x1, x2, bend = start.x + half_width, end.x - half_width - 4, (end.x - start.x) / 3
        sag = ROW / 2 * (end.column - start.column - 1)  # around what is in between
        d = f"M{number(x1)} {number(start.y)}C{number(x1 + bend)} {number(start.y + sag)} {number(x2 - bend)} {number(end.y + sag)} {number(x2)} {number(end.y)}"
        return d, (x1 + x2) / 2, (start.y + end.y) / 2 + 0.75 * sag - 8
    y1, y2 = start.y + half_height, end.y + half_height + 4
    low = max(y1, y2) + 44
    d = f"M{number(start.x)} {number(y1)}C{number(start.x)} {number(low)} {number(end.x)} {number(low)} {number(end.x)} {number(y2)}"
    return d, (start.x + end.x) / 2, low - 4


def _beginning(place: Position, name: str) -> Markup:
    x = place.x - NODE_WIDTH / 2
    return element("path", d=f"M{number(x - 26)} {number(place.y)}H{number(x - 4)}", class_="arrow", marker_end=f"url(#arrow-{name})")


def _arrowhead(name: str) -> Markup:
    head = element("path", d="M0 0L8 4L0 8Z", class_="head")
    marker = element(
        "marker", [head], id=f"arrow-{name}", viewBox="0 0 8 8", refX=7, refY=4, markerWidth=8, markerHeight=8, orient="auto-start-reverse"
    )
    return element("defs", [marker])


def clipped(text: str, letters: int) -> str:
    """The text, or its beginning.

    >>> clipped("abc", 3), clipped("abcd", 3)
    ('abc', 'ab…')
    """
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
