"""Timestamps as people write them in expressions: ISO 8601, UTC where no zone is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """ISO 8601 in UTC with as many digits as needed; the number itself where no calendar reaches.

    >>> format_timestamp(1500), format_timestamp(0)
    ('1970-01-01T00:00:01.500Z', '1970-01-01T00:00:00Z')
    """
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    digits = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.replace(tzinfo=None).isoformat(timespec=digits) + "Z"
