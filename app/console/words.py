"""Numbers as people read them. What is not known is a dash; a narrow space stands before units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "–"
SPACE = "\N{NARROW NO-BREAK SPACE}"


def known(value: Any) -> bool:
    """Whether it is a number.

    >>> known(0.0), known(None), known(float("nan"))
    (True, False, False)
    """
    return isinstance(value, int | float) and math.isfinite(value)


def count(value: Any) -> str:
    """A whole number.

    >>> count(1234567), count(None)
    ('1,234,567', '–')
    """
    return f"{round(value):,}" if known(value) else UNKNOWN


def short(value: Any) -> str:
    """A number of any size, in three digits or so.

    >>> [short(one) for one in (0, 0.25, 3.14159, 31.4, 314, 9_999.6, 31415, 999_500, 3141592, 999_999_999, 1.5e12, None)]
    ['0', '0.25', '3.1', '31', '314', '10k', '31.4k', '1M', '3.14M', '1G', '1,500G', '–']
    """
    if not known(value):
        return UNKNOWN
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= 0.9995 * limit:
            return f"{_three(value / divisor)}{unit}"
    if abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 1 else f"{value:.2g}"


def _three(value: float) -> str:
    """Three digits, or all of a larger number."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def rate(value: Any) -> str:
    """So many per second.

    >>> rate(31415)
    '31.4k/s'
    """
    return f"{short(value)}/s" if known(value) else UNKNOWN


def duration(value: Any) -> str:
    """Milliseconds as a time that people can hold.

    >>> [duration(one).replace(SPACE, " ") for one in (0, 12.3, 950, 1234, 61_000, 7_300_000, 200_000_000, 345_600_000_000)]
    ['0 ms', '12 ms', '950 ms', '1.23 s', '61 s', '2.03 h', '2.31 d', '4,000 d']
    """
    if not known(value):
        return UNKNOWN
    for limit, divisor, unit in ((172_800_000, 86_400_000, "d"), (7_200_000, 3_600_000, "h"), (120_000, 60_000, "min"), (1000, 1000, "s")):
        if abs(value) >= limit:
            return f"{_three(value / divisor)}{SPACE}{unit}"
    return f"{value:.0f}{SPACE}ms"


def share(value: Any) -> str:
    """A share of 1 in per cent.

    >>> [share(one).replace(SPACE, " ") for one in (0, 0.123, 0.0123, 1)]
    ['0 %', '12 %', '1.2 %', '100 %']
    """
    if not known(value):
        return UNKNOWN
    percent = 100 * value
    return f"{percent:.1f}{SPACE}%" if 0 < percent < 9.95 else f"{percent:.0f}{SPACE}%"


def middle(value: Any) -> str:
    """Of lower end, value, upper end of a share, the value.

    >>> middle([0.91, 0.95, 0.98]).replace(SPACE, " "), middle(None)
    ('95 %', '–')
    """
    return share(value[1]) if _is_interval(value) else UNKNOWN


def interval(value: Any) -> str:
    """The ends; nothing where they are not known.

    >>> interval([0.91, 0.95, 0.98]).replace(SPACE, " "), interval(None)
    ('91 to 98 %', '')
    """
    return f"{share(value[0]).removesuffix(f'{SPACE}%')} to {share(value[2])}" if _is_interval(value) else ""


def _is_interval(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 3


def moment(value: Any) -> str:
    """Milliseconds since the epoch as a time of the day, UTC; with the day where people would guess wrongly.

    >>> moment(1_800_000_000_000)
    '2027-01-15 08:00:00'
    """
    return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S}" if _is_time(value) else UNKNOWN


def time_of_day(value: Any) -> str:
    """The same without the day.

    >>> time_of_day(1_800_000_000_000)
    '08:00:00'
    """
    return moment(value)[-8:] if _is_time(value) else UNKNOWN


def machine_time(value: Any) -> str:
    """The same for ``datetime``: RFC 3339; empty where it is unknown."""
    return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}" if _is_time(value) else ""


def _is_time(value: Any) -> bool:
    return known(value) and -62e12 < value < 253e12


def sentence(value: Any) -> str:
    """A constant's name as words.

    >>> sentence("FALSE_POSITIVE"), sentence("needs_restart")
    ('false positive', 'needs restart')
    """
    return str(value).replace("_", " ").lower()


FILTERS: Mapping[str, Callable[[Any], str]] = {
    one.__name__: one for one in (count, short, rate, duration, share, middle, interval, moment, time_of_day, machine_time, sentence)
}
"""What templates call them."""
