"""Moments as people write them, a time or how long ago; and durations."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from app.config.durations import parse_duration
from app.errors import CepError

MOMENT = "write how long ago, as 15 m, or when, as 2026-05-28T20:26:40Z"
RECENT_MS = 10**11
"""Early in 1973: no record of Kafka's is older, and seconds since 1970 are less."""
DAY_DIGITS = 8
DIGITS = 17
"""Of the longest number that is a moment: a broker's clock has 64 bits, and Python refuses to read numbers of thousands of digits."""


def moment_ms(text: str, option: str, now_ms: int | None = None) -> int:
    """A moment of the broker's clock, ms since 1970; how long ago reaches no further back.

    >>> moment_ms("15 m", "--since", 1_780_000_900_000), moment_ms("1780000000000", "--since")
    (1780000000000, 1780000000000)
    >>> moment_ms("2026-05-28T22:26:40+02:00", "--since") == moment_ms("2026-05-28T20:26:40", "--since")
    True

    Args:
        text: a duration before now, a time as ISO-8601 (without zone: UTC), or ms.
        option: that it was given with, for the error.
        now_ms: the clock.

    Raises:
        CepError: it is none.
    """
    if text.isdecimal() and len(text) <= DIGITS and 0 < int(text) < RECENT_MS:
        raise CepError(f"{option}: {text} milliseconds are {moment_text(int(text))}; are these seconds, or a day?\nhint: {MOMENT}")
    try:
        return max(0, (time.time_ns() // 1_000_000 if now_ms is None else now_ms) - parse_duration(text))
    except ValueError:
        pass
    return time_ms(text, option, MOMENT)


def time_ms(text: str, option: str, hint: str = "write for instance 2026-05-28T20:26:40Z, or milliseconds since 1970") -> int:
    """A time, ms since 1970.

    >>> time_ms("1780000000000", "--from") == time_ms("2026-05-28T20:26:40", "--from") == time_ms("2026-05-28T22:26:40+02:00", "--from")
    True

    Args:
        text: ISO-8601 (without zone: UTC), or ms.
        option: that it was given with, for the error.
        hint: what to write instead.

    Raises:
        CepError: it is none, or may be a day as well as milliseconds.
    """
    told = _iso(text)
    if text.removeprefix("-").isdecimal() and len(text) <= DIGITS:
        if told is not None and len(text) == DAY_DIGITS:
            raise CepError(f"{option}: {text} may be a day or milliseconds\nhint: write {told.date().isoformat()}")
        return int(text)
    if told is None:
        raise CepError(f'{option}: "{text}" is no moment\nhint: {hint}')
    return round((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000)


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def duration_ms(text: str, option: str) -> int:
    """A duration, ms; ``option``: that it was given with, for the error.

    >>> duration_ms("2 s", "--over")
    2000

    Raises:
        CepError: it is none.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CepError(f"{option}: {error}") from error


def moment_text(time_ms: int) -> str:
    """A moment for people.

    >>> moment_text(1780000000123)
    '2026-05-28T20:26:40.123Z'
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
