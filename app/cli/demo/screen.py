"""What the quick start shows: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.cli.demo.composites import Composite, Seen

_LINES_SECONDS = 2.0
_LINES_PER_TURN = 4
_LONGEST_FIELDS = 96


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to show at a moment."""

    sent: Mapping[str, int]
    streaming_s: float
    first_after_s: float | None
    """From the start of the command to the first composite event."""
    seen: Seen
    address: str

    def headline(self) -> str:
        """Throughput, composite events, latency."""
        total = sum(self.sent.values())
        rate = total / self.streaming_s if self.streaming_s else 0.0
        latency = f", latency p50 {self.seen.latency_ms(50):.0f} ms p95 {self.seen.latency_ms(95):.0f} ms" if self.seen.total else ""
        return f"{self.streaming_s:.0f} s: {total:,} events ({rate:,.0f}/s), {self.seen.total:,} composite events{latency}"


class Screen(Protocol):
    """Shows scenes."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def show(self, scene: Scene, new: Sequence[Composite]) -> None:
        """Show how things stand; ``new`` are the composite events since the last time."""


class TableScreen:
    """A live table."""

    def __init__(self) -> None:
        self._live = Live(refresh_per_second=4, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    def show(self, scene: Scene, new: Sequence[Composite]) -> None:
        """Draw the scene."""
        latest = Table(expand=True, box=None, pad_edge=False)
        for title, style in (("detected", "dim"), ("query", "bold cyan"), ("composite event", ""), ("latency", "green")):
            latest.add_column(title, style=style, no_wrap=True, justify="right" if title == "latency" else "left")
        for composite in reversed(scene.seen.latest):
            latest.add_row(_clock(composite.written_ms), composite.query, fields_text(composite.fields), f"{composite.latency_ms} ms")
        counts = ", ".join(f"{query} {count:,}" for query, count in scene.seen.by_query.most_common()) or "none yet"
        streams = ", ".join(f"{name} {count:,}" for name, count in scene.sent.items())
        head = Text.assemble((scene.headline(), "bold"), f"\nstreams: {streams}\nqueries: {counts}\n")
        foot = Text(f"{scene.address}/ shows every query — Ctrl-C ends everything", style="dim")
        self._live.update(Group(head, latest, foot))


class LinesScreen:
    """Plain lines, some every two seconds."""

    def __init__(self) -> None:
        self._last = -_LINES_SECONDS
        self._waiting: list[Composite] = []
        self._first_told = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def show(self, scene: Scene, new: Sequence[Composite]) -> None:
        """Print what came since the last turn, if it is time."""
        self._waiting.extend(new)
        if not self._first_told and scene.first_after_s is not None:
            self._first_told = True
            print(f"first composite event {scene.first_after_s:.1f} s after the start", flush=True)
        elif scene.streaming_s - self._last < _LINES_SECONDS:
            return
        self._last = scene.streaming_s
        for composite in self._waiting[-_LINES_PER_TURN:]:
            print(f"  {_clock(composite.written_ms)} {composite.query}: {fields_text(composite.fields)} ({composite.latency_ms} ms)")
        self._waiting.clear()
        print(scene.headline(), flush=True)


def fields_text(fields: Mapping[str, Any]) -> str:
    """The fields of a composite event on one line.

    >>> fields_text({"tag_id": "T1", "dwell": 360000, "none": None})
    'tag_id=T1 dwell=360000'
    """
    text = " ".join(f"{name}={_value(value)}" for name, value in fields.items() if value is not None)
    return text if len(text) <= _LONGEST_FIELDS else f"{text[: _LONGEST_FIELDS - 1]}…"


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone().strftime("%H:%M:%S")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _clock(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
