"""Times that cannot be: far ahead of the moment the broker took the record in, or outside the years 1 to 9999.

One event from next year would carry the watermark there and make everything after it late. The broker's timestamp is the judge, never the
clock, so a repeated batch judges alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.events.batch import take
from app.events.decoder import DecodedBatch
from app.events.failures import Failure, Failures

EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: others cannot be written as dates, and differences of such times could leave 64 bit."""


def without_implausible_times(decoded: DecodedBatch, ingested_ms: NDArray[np.int64], max_ahead_ms: int) -> DecodedBatch:
    """Turns events whose time cannot be into failures.

    Args:
        decoded: a batch as it was decoded.
        ingested_ms: int64 (records,), the records' Kafka timestamps; of a record without one (negative) only the range is judged.
        max_ahead_ms: how far an event's time may be ahead of it.

    Returns:
        The same object when all times are plausible.
    """
    times = decoded.batch.time
    if not len(times):
        return decoded
    low, high, first = int(times.min()), int(times.max()), int(ingested_ms.min())
    if low >= EARLIEST_MS and high <= min(LATEST_MS, first + max_ahead_ms) and first >= 0:
        return decoded
    taken_in = np.clip(ingested_ms[decoded.rows], -1, LATEST_MS)
    outside = (times < EARLIEST_MS) | (times > LATEST_MS)
    ahead = (times > taken_in + max_ahead_ms) & (taken_in >= 0) & ~outside
    bad = outside | ahead
    if not bad.any():
        return decoded
    rows = decoded.rows[bad]
    codes = np.where(outside[bad], Failure.TIME_OUT_OF_RANGE, Failure.TIME_AHEAD).astype(np.uint8)
    return replace(
        decoded,
        batch=take(decoded.batch, np.flatnonzero(~bad)),
        rows=decoded.rows[~bad],
        failures=_joined(decoded.failures, rows, codes, _texts(rows, times[bad], taken_in[bad], max_ahead_ms)),
    )


def _texts(rows: NDArray[np.int64], times: NDArray[np.int64], taken_in: NDArray[np.int64], max_ahead_ms: int) -> dict[int, str]:
    listed = zip(rows.tolist(), times.tolist(), taken_in.tolist(), strict=True)
    return {row: _text(time, broker, max_ahead_ms) for row, time, broker in listed}


def _text(time: int, taken_in: int, max_ahead_ms: int) -> str:
    if not EARLIEST_MS <= time <= LATEST_MS:
        return f"the time {time} ms is outside the years 1 to 9999"
    return f"the time {time} ms is {time - taken_in} ms ahead of the record's Kafka timestamp {taken_in} ms; max_ahead is {max_ahead_ms} ms"


def _joined(known: Failures, rows: NDArray[np.int64], codes: NDArray[np.uint8], details: dict[int, str]) -> Failures:
    """Rows stay ascending."""
    all_rows, all_codes = np.concatenate([known.rows, rows]), np.concatenate([known.codes, codes])
    order = np.argsort(all_rows, kind="stable")
    return Failures(all_rows[order], all_codes[order], {**known.details, **details})
