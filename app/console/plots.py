"""Lines over time as SVG. The picture stretches with the page; what is written beside it is HTML, so letters keep their size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from app.console.svg import element, number, picture
from app.console.words import UNKNOWN, time_of_day
from app.control.shown.history import SLOT_MS, SLOTS

WIDTH, HEIGHT = 720.0, 120.0
STRETCHED = {"viewBox": f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", "preserveAspectRatio": "none"}
"""The picture takes the shape of its place."""
BRIDGED = 12
"""Slots without a value that a line crosses: a minute. Further apart are two lines."""
LEAST_SLOTS = 60
"""Five minutes: less of an axis would make a storm of every ripple."""
LIKE = 2.0
"""A picture reaches up to so many times what is usual."""
ROWS = 12
"""Of the table that says the same in numbers."""

Values = NDArray[np.float32]
Format = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Line:
    """A series.

    Attributes:
        label: what it is.
        kind: how it looks: ``main``, ``second``, ``bound`` (dashed).
        lower, upper: ends of an interval around it, drawn as a band.
    """

    label: str
    values: Values
    kind: str = "main"
    lower: Values | None = None
    upper: Values | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture with what stands around it.

    Attributes:
        name: on its page.
        picture: SVG.
        peak: the greatest value, where the picture is cut off below it; else empty.
        top, middle: what its upper edge and its middle mean.
        begin, end: of the axis of time.
        legend: of each line, how it looks, what it is, and its newest value.
        columns, rows: the same in numbers.
    """

    name: str
    title: str
    picture: Markup
    peak: str
    top: str
    middle: str
    begin: str
    end: str
    legend: tuple[tuple[str, str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def plot(name: str, title: str, lines: Sequence[Line], now_ms: int, form: Format, *, least_top: float = 0.0) -> Plot | None:
    """A plot of the last hour, or of the time since there are values; None where there are none at all.

    Args:
        name: of the plot on its page.
        title: what people read above it.
        lines: of `SLOTS` values each, oldest first.
        now_ms: when the newest slot ended.
        form: how values are written.
        least_top: the axis reaches at least so far.
    """
    slots = shown_slots([line.values for line in lines if line.kind != "bound"], LEAST_SLOTS, SLOTS)
    if not slots:
        return None
    cut = [_cut(line, slots) for line in lines]
    greatest = max(_greatest(line) for line in cut)
    top = nice(max(least_top, reach(cut)))
    peak = form(greatest) if greatest > top * 1.001 else ""
    begin = now_ms - slots * SLOT_MS
    legend = tuple((line.kind, line.label, form(newest(line.values))) for line in cut)
    told = "; ".join(f"{line.label}: {described(line.values, form)}" for line in cut)
    description = f"From {time_of_day(begin)} to {time_of_day(now_ms)} UTC. {told}."
    drawn = picture(title, description, _drawn(cut, top), name=name, class_="lines", **STRETCHED)
    columns, rows = _table(cut, begin, form)
    return Plot(name, title, drawn, peak, form(top), form(top / 2), time_of_day(begin), time_of_day(now_ms), legend, columns, rows)


def sparkline(name: str, label: str, lines: Sequence[Line], slots: int, form: Format) -> Markup:
    """A small plot without axes; its description says what can be seen. Nothing where there is nothing."""
    cut = [_cut(line, slots) for line in lines]
    if not any(np.isfinite(line.values).any() for line in cut if line.kind != "bound"):
        return Markup("")
    top = reach(cut) * 1.08 or 1.0
    told = "; ".join(f"{line.label}: {described(line.values, form)}" for line in cut)
    return picture(label, f"{told}.", _drawn(cut, top, grid=False), name=name, class_="spark", **STRETCHED)


def shown_slots(series: Sequence[Values], least: int, most: int) -> int:
    """How many slots, counted from now, hold all values, within limits; 0 without any.

    >>> shown_slots([np.array([np.nan, np.nan, 1.0, np.nan], np.float32)], 1, 4)
    2
    """
    first = [int(np.flatnonzero(np.isfinite(values))[0]) for values in series if np.isfinite(values).any()]
    return min(most, max(least, len(series[0]) - min(first))) if first else 0


def nice(value: float) -> float:
    """The least round number that is not less.

    >>> [nice(one) for one in (0, 0.07, 0.9, 1.2, 230, 4100)]
    [1.0, 0.1, 1.0, 2.0, 250.0, 5000.0]
    """
    if not isfinite(value) or value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return float(next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-6)))


def newest(values: Values) -> float | None:
    """The last value that is one, unless it is more than a minute old."""
    finite = np.flatnonzero(np.isfinite(values[-BRIDGED:]))
    return float(values[-BRIDGED:][finite[-1]]) if len(finite) else None


def described(values: Values, form: Format) -> str:
    """Its newest, least and greatest value.

    >>> described(np.array([1, 3, 2], np.float32), str)
    'now 2.0, between 1.0 and 3.0'
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return "no values"
    return f"now {form(newest(values))}, between {form(float(finite.min()))} and {form(float(finite.max()))}"


def reach(lines: Sequence[Line]) -> float:
    """How far up an axis goes: to the greatest value, unless a few are many times what is usual (the first batch after a start reads what waited for long).

    >>> reach([Line("x", np.array([1, 2, 3], np.float32))]), reach([Line("x", np.array([1] * 99 + [500], np.float32))])
    (3.0, 1.5)
    """
    greatest = max(_greatest(line) for line in lines)
    usual = 1.5 * max(_usual(line) for line in lines)
    return greatest if greatest <= LIKE * usual else usual


def _usual(line: Line) -> float:
    finite = line.values[np.isfinite(line.values)]
    return float(np.percentile(finite, 90)) if len(finite) else 0.0


def _cut(line: Line, slots: int) -> Line:
    lower, upper = (None if one is None else one[-slots:] for one in (line.lower, line.upper))
    return Line(line.label, line.values[-slots:], line.kind, lower, upper)


def _greatest(line: Line) -> float:
    values = line.values if line.upper is None else line.upper
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else 0.0


def _drawn(lines: Sequence[Line], top: float, *, grid: bool = True) -> list[Markup]:
    drawn = [element("path", class_="grid", d=f"M0 {number(HEIGHT * at)}H{number(WIDTH)}") for at in (0, 0.5, 1)] if grid else []
    for line in lines:
        if line.lower is not None and line.upper is not None:
            drawn += [element("path", class_="band", d=d) for d in _bands(line.lower, line.upper, top)]
    drawn += [element("path", class_=f"line {line.kind}", d=d) for line in lines if (d := _path(line.values, top))]
    return drawn


def _points(values: Values, top: float) -> list[tuple[int, float, float]]:
    """Slot, and where its value is in the picture."""
    step = WIDTH / max(1, len(values) - 1)
    return [(int(k), k * step, HEIGHT * (1 - min(1.0, float(values[k]) / top))) for k in np.flatnonzero(np.isfinite(values))]


def _pieces(values: Values, top: float) -> list[list[tuple[int, float, float]]]:
    """Points that are joined."""
    pieces: list[list[tuple[int, float, float]]] = []
    for point in _points(values, top):
        if pieces and point[0] - pieces[-1][-1][0] <= BRIDGED:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def _path(values: Values, top: float) -> str:
    drawn = []
    for piece in _pieces(values, top):
        points = [f"{number(x)} {number(y)}" for _, x, y in piece]
        drawn.append(f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h0.5")
    return "".join(drawn)


def _bands(lower: Values, upper: Values, top: float) -> list[str]:
    both = np.isfinite(lower) & np.isfinite(upper)
    low, high = (_pieces(np.where(both, one, np.float32(np.nan)), top) for one in (lower, upper))
    return [
        f"M{'L'.join(f'{number(x)} {number(y)}' for _, x, y in [*above, *reversed(below)])}Z"
        for below, above in zip(low, high, strict=True)
    ]


def _table(lines: Sequence[Line], begin: int, form: Format) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """About a dozen moments, newest first: of the slots in between the greatest value."""
    slots = len(lines[0].values)
    step = max(1, -(-slots // ROWS))
    rows = []
    for end in range(slots, 0, -step):
        parts = [line.values[max(0, end - step) : end] for line in lines]
        values = [form(float(np.nanmax(part))) if np.isfinite(part).any() else UNKNOWN for part in parts]
        rows.append((time_of_day(begin + end * SLOT_MS), *values))
    return ("until", *(line.label for line in lines)), tuple(rows)
