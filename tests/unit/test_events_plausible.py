"""Times that cannot be become failures before they carry a watermark anywhere."""

import numpy as np
import pytest

from app.events.batch import Column, events_of_types
from app.events.decoder import DecodedBatch
from app.events.failures import Failure, Failures, Reason
from app.events.plausible import EARLIEST_MS, LATEST_MS, without_implausible_times
from app.events.types import Kind

DAY = 86_400_000
NOW = 1_780_000_000_000


def decoded(times, rows=None, failed=()):
    count = len(times)
    rows = np.arange(count) if rows is None else np.array(rows)
    number = np.arange(count, dtype=np.int64)
    batch = events_of_types(["Reading"] * count, times, {"n": Column(Kind.INTEGER, number)})
    codes = np.full(len(failed), Failure.TRUNCATED, dtype=np.uint8)
    return DecodedBatch(batch, rows, Failures(np.array(failed, dtype=np.int64), codes, {}))


def judged(times, ingested, max_ahead=DAY, **more):
    return without_implausible_times(decoded(times, **more), np.array(ingested, dtype=np.int64), max_ahead)


def test_plausible_times_cost_nothing():
    batch = decoded([NOW - 1000 * DAY, NOW, NOW + DAY])
    assert without_implausible_times(batch, np.full(3, NOW), DAY) is batch


def test_an_event_further_ahead_than_allowed_is_refused_and_the_others_stay():
    found = judged([NOW, NOW + DAY + 1, NOW + DAY], [NOW, NOW, NOW])
    assert found.batch.time.tolist() == [NOW, NOW + DAY]
    assert found.batch.columns["n"].values.tolist() == [0, 2]
    assert found.rows.tolist() == [0, 2]
    assert found.failures.rows.tolist() == [1]
    assert found.failures.reason(0) is Reason.TIME_AHEAD
    assert str(NOW + DAY + 1) in found.failures.text(0)


def test_every_record_is_held_against_its_own_timestamp():
    found = judged([NOW + DAY, NOW + DAY], [NOW - 1, NOW])
    assert found.failures.rows.tolist() == [0]


@pytest.mark.parametrize("time", [EARLIEST_MS - 1, LATEST_MS + 1, -(1 << 63), (1 << 63) - 1])
def test_times_outside_the_calendar_are_refused_whatever_is_allowed(time):
    found = judged([NOW, time], [NOW, NOW], max_ahead=1 << 52)
    assert found.failures.rows.tolist() == [1]
    assert found.failures.reason(0) is Reason.TIME_OUT_OF_RANGE


def test_records_without_a_timestamp_are_not_held_against_it():
    found = judged([NOW, LATEST_MS], [-1, -1])
    assert not len(found.failures)


def test_failures_of_decoding_and_of_time_are_one_ascending_list():
    found = judged([NOW, NOW + 2 * DAY, NOW], [NOW] * 5, rows=[0, 2, 4], failed=[1, 3])
    assert found.failures.rows.tolist() == [1, 2, 3]
    assert [found.failures.reason(k) for k in range(3)] == [Reason.UNDECODABLE, Reason.TIME_AHEAD, Reason.UNDECODABLE]
    assert found.rows.tolist() == [0, 4]


def test_no_events_are_no_work():
    assert not len(judged([], []).batch)
