"""Warnings about temporal queries that are valid but will hardly do what their author wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from app.config.durations import format_duration
from app.errors import Finding, Severity
from app.query.checks.lint_symbols import no_such_symbol_of_tuples
from app.query.resolved import resolved as r
from app.query.text import keys as k


def lint_temporal(query: r.ResolvedTemporal) -> tuple[Finding, ...]:
    """All warnings about a resolved temporal query."""
    return tuple(finding for rule in _RULES for finding in rule(query))


def _one_bucket(query: r.ResolvedTemporal) -> Iterator[Finding]:
    document = query.document
    window = document.record("window").get("range")
    if not query.key:
        hint = "if tuples have an owner, name it: key: [sensor_id]"
        yield Finding(
            "without key all tuples go to one bucket: the query will not scale out", document.location("coalesce"), hint, Severity.WARNING
        )
    elif window is not None and window.value.unit == "events":
        message = "a count window counts the tuples of all keys, so all go to one bucket: the query will not scale out"
        yield Finding(message, window.node.location(), "write a duration if the query does not mean a number of tuples", Severity.WARNING)


def _longer_than_the_window(query: r.ResolvedTemporal) -> Iterator[Finding]:
    """``valid`` sees the clipped interval."""
    window, valid = query.document.record("window").get("range"), query.document.expression("valid")
    if window is None or valid is None or query.valid is None or window.value.unit != "ms" or query.valid.length_ms is None:
        return
    length, limit, range_ms = query.valid.length_ms, query.valid.operator, window.value.size
    if (limit == ">=" and length > range_ms) or (limit == ">" and length >= range_ms):
        yield Finding(
            f"no interval is that long: the window clips them to {format_duration(range_ms)}",
            valid.scalar.location(),
            "make the window's range longer",
            Severity.WARNING,
        )


def _shedder_without_memory(query: r.ResolvedTemporal) -> Iterator[Finding]:
    shedding = query.document.record("shedding")
    shedder = shedding.get("shedder")
    if shedder is not None and shedder.value in k.TUPLE_SHEDDERS and "memory" not in shedding:
        message = f"{shedder.value} drops tuples when memory is full, and without memory it never is"
        yield Finding(message, shedder.node.location(), "write for instance memory: 1000 tuples", Severity.WARNING)


def _between_windows(query: r.ResolvedTemporal) -> Iterator[Finding]:
    window = query.document.record("window")
    reach, slide = window.get("range"), window.get("slide")
    if reach is not None and slide is not None and reach.value.unit == slide.value.unit and slide.value.size > reach.value.size:
        message = "the slide is longer than the range: what is valid between two windows only is in none"
        yield Finding(message, slide.node.location(), "make slide at most range", Severity.WARNING)


_RULES: tuple[Callable[[r.ResolvedTemporal], Iterator[Finding]], ...] = (
    _one_bucket,
    _longer_than_the_window,
    _shedder_without_memory,
    _between_windows,
    no_such_symbol_of_tuples,
)
