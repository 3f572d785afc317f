"""Timestamps as people write them in expressions: ISO 8601, UTC where no zone is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MS = -62_135_596_800_000
"""The beginning of the year 1."""
LAST_MS = 253_402_300_799_999
"""The end of the year 9999: no event is later."""


def parse_timestamp(text: str) -> int:
    """Milliseconds since the epoch.

    >>> parse_timestamp("1970-01-01T00:00:01.5Z"), parse_timestamp("1970-01-02"), parse_timestamp("1970-01-01 01:00+01:00")
    (1500, 86400000, 0)

    Raises:
        ValueError: no timestamp.
    """
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def format_timestamp(milliseconds: int) -> str:
    """ISO 8601 in UTC with as many digits as needed, where UTC's calendar ends in the zone of a whole hour that it takes; the number itself where no calendar reaches.

    >>> format_timestamp(1500), format_timestamp(0)
    ('1970-01-01T00:00:01.500Z', '1970-01-01T00:00:00Z')
    >>> format_timestamp(FIRST_MS - 1), format_timestamp(-(1 << 60))
    ('0001-01-01T00:59:59.999+01:00', '-1152921504606846976')
    """
    beyond = max(FIRST_MS - milliseconds, milliseconds - LAST_MS, 0)
    hours = -(-beyond // 3_600_000)
    if hours >= 24:
        return str(milliseconds)
    offset = timedelta(hours=hours if milliseconds < 0 else -hours)
    moment = datetime(1970, 1, 1, tzinfo=timezone(offset)) + (timedelta(milliseconds=milliseconds) + offset)
    text = moment.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds")
    return text if hours else text.removesuffix("+00:00") + "Z"
