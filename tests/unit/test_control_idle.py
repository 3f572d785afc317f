from __future__ import annotations

import json
from collections.abc import Callable

from app.control.arrivals.heartbeat import Delivered, HeartbeatWriter
from app.control.arrivals.idle import Beat, IdleSources, Silence, SourceOfStream, Waiting, heartbeat_is_due

TWO = (SourceOfStream(0, "a"), SourceOfStream(1, "a"))


def two_sources(now_ms: int = 0) -> IdleSources:
    idle = IdleSources({"a": 5_000})
    idle.assign(TWO, now_ms)
    return idle


def test_source_silent_for_idle_after_is_left_out_and_comes_back() -> None:
    idle = two_sources()
    idle.hear([0], 4_000)
    assert idle.decide({0: 100}, 4_999).idle == ()
    assert idle.decide({0: 100}, 5_000) == Silence((1,))
    idle.hear([1], 6_000)
    assert idle.decide({0: 100, 1: 50}, 6_001) == Silence()


def test_a_stream_that_wakes_gives_all_its_sources_time_to_speak() -> None:
    idle = two_sources()
    assert idle.decide({0: 100, 1: 100}, 60_000).idle == (0, 1)
    idle.hear([0], 60_000)
    assert idle.decide({0: 900, 1: 100}, 60_001) == Silence(), "the other one's records are still on their way"
    idle.hear([0], 64_000)
    assert idle.decide({0: 900, 1: 100}, 65_000).idle == (1,), "it had its chance; and one that speaks on wakes nobody"


def test_time_goes_on_with_the_clock_when_all_sources_are_silent() -> None:
    idle = two_sources()
    idle.hear([0, 1], 1_000)
    assert idle.decide({0: 100, 1: 70}, 5_999).stream_times == {}
    assert idle.decide({0: 100, 1: 70}, 6_000) == Silence((0, 1), {"a": 100 + 5_000})
    assert idle.decide({0: 100, 1: 70}, 7_500).stream_times == {"a": 100 + 6_500}


def test_stream_time_never_goes_back_while_the_silence_lasts() -> None:
    idle = two_sources()
    assert idle.decide({0: 100}, 9_000).stream_times == {"a": 9_100}
    assert idle.decide({0: 100}, 8_000).stream_times == {"a": 9_100}


def test_stream_without_any_event_has_no_time() -> None:
    assert two_sources().decide({}, 99_000) == Silence((0, 1), {})


def test_streams_fall_silent_on_their_own() -> None:
    idle = IdleSources({"a": 5_000, "b": 60_000})
    idle.assign([SourceOfStream(0, "a"), SourceOfStream(9, "b"), SourceOfStream(77, "heartbeat")], 0)
    assert idle.decide({0: 1, 9: 1}, 6_000) == Silence((0,), {"a": 6_001})


def test_after_a_restart_everybody_gets_time_to_speak() -> None:
    idle = two_sources()
    again = IdleSources({"a": 5_000})
    again.restore(idle.snapshot(0, 0), 100_000, 0)
    assert again.decide({0: 1}, 104_999) == Silence()
    assert again.decide({0: 1}, 105_000).idle == (0, 1)


def test_time_has_gone_on_while_the_driver_was_down() -> None:
    """The clock that only goes on begins anew with the driver; how long it was down tells the time of day."""
    idle, at_ms, down_ms = two_sources(), 1_800_000_000_000, 50_000
    idle.hear([0, 1], 1_000)
    assert idle.decide({0: 100, 1: 70}, 31_000).stream_times == {"a": 100 + 30_000}
    again = IdleSources({"a": 5_000})
    again.restore(json.loads(json.dumps(idle.snapshot(31_000, at_ms))), 7, at_ms + down_ms)
    again.expect_all(1_007)
    assert again.decide({0: 100, 1: 70}, 6_006) == Silence(), "both got time to speak"
    assert again.decide({0: 100, 1: 70}, 6_007) == Silence((0, 1), {"a": 100 + 30_000 + down_ms + 6_000})
    again.hear([1], 7_000)
    assert again.decide({0: 100, 1: 90_000}, 12_000).stream_times == {"a": 90_000 + 5_000}, "it speaks of its own time again"


def test_a_time_of_day_that_was_set_back_takes_nothing_from_a_silence() -> None:
    idle = two_sources()
    idle.hear([0, 1], 1_000)
    again = IdleSources({"a": 5_000})
    again.restore(idle.snapshot(31_000, 90_000), 0, 10_000)
    assert again.decide({0: 100}, 5_000).stream_times == {"a": 100 + 30_000 + 5_000}


def test_a_topic_partition_that_is_new_does_not_hold_up_the_time_of_a_silent_stream_for_longer_than_it_may_speak() -> None:
    idle = two_sources()
    idle.hear([0, 1], 1_000)
    idle.assign([SourceOfStream(2, "a")], 60_000)
    assert idle.decide({0: 100}, 64_999).stream_times == {}
    assert idle.decide({0: 100}, 65_000).stream_times == {"a": 100 + 64_000}


def test_heartbeat_only_when_the_input_is_silent_and_something_waits() -> None:
    idle = two_sources()
    idle.hear([0], 10_000)
    assert not heartbeat_is_due(idle, Waiting(0), {0: 1}, Beat(0, 1_000), 20_000)
    assert not heartbeat_is_due(idle, Waiting(3), {0: 1}, Beat(0, 1_000), 10_500)
    assert heartbeat_is_due(idle, Waiting(3), {0: 1}, Beat(0, 1_000), 11_000)
    assert not heartbeat_is_due(idle, Waiting(3), {0: 1}, Beat(11_000, 1_000), 11_500)


def test_heartbeat_waits_until_a_batch_would_release_something() -> None:
    idle = two_sources()
    idle.hear([0, 1], 0)
    waiting = Waiting(1, release_at_ms=10_000)
    assert not heartbeat_is_due(idle, waiting, {0: 1_000}, Beat(-9_999, 1_000), 4_000)
    assert not heartbeat_is_due(idle, waiting, {0: 1_000}, Beat(-9_999, 1_000), 9_000)
    assert heartbeat_is_due(idle, waiting, {0: 1_000}, Beat(-9_999, 1_000), 9_001)


def test_heartbeat_reckons_with_the_allowed_lateness() -> None:
    idle = IdleSources({"a": 5_000}, {"a": 2_000})
    idle.assign(TWO, 0)
    assert not heartbeat_is_due(idle, Waiting(1, 10_000), {0: 1_000}, Beat(0, 1_000), 11_000)
    assert heartbeat_is_due(idle, Waiting(1, 10_000), {0: 1_000}, Beat(0, 1_000), 11_001)


class Collecting:
    """A producer that reports deliveries when it is polled; the real one is asked in tests/kafka."""

    def __init__(self, *errors: str | None) -> None:
        self.records: list[tuple[str, bytes]] = []
        self.errors = list(errors)
        self.reports: list[Callable[[], None]] = []

    def produce(self, topic: str, value: bytes, *, on_delivery: Delivered) -> None:
        self.records.append((topic, value))
        self.reports.append(lambda: on_delivery(self.errors.pop(0), None))

    def poll(self, timeout: float) -> int:
        while self.reports:
            self.reports.pop()()
        return 0

    def flush(self, timeout: float) -> int:
        return 0


class Heard:
    def __init__(self) -> None:
        self.written, self.reasons = 0, []

    def beat_written(self) -> None:
        self.written += 1

    def beat_failed(self, reason: str) -> None:
        self.reasons.append(reason)


def test_a_heartbeat_counts_when_the_broker_has_it() -> None:
    producer, heard = Collecting(None, "no right to write"), Heard()
    writer = HeartbeatWriter(producer, "cep.heartbeat", lambda: True, 0.001, heard)
    assert writer.beat_if_due()
    assert (heard.written, heard.reasons) == (1, [])
    assert writer.beat_if_due()
    assert (heard.written, heard.reasons) == (1, ["no right to write"])


def test_writer_writes_when_due_and_survives_failures() -> None:
    producer, answers, heard = Collecting(None), iter([False, True]), Heard()
    writer = HeartbeatWriter(producer, "cep.heartbeat", lambda: next(answers), 0.001, heard)
    assert not writer.beat_if_due()
    assert writer.beat_if_due()
    assert producer.records == [("cep.heartbeat", b"")]
    writer.start()
    while len(heard.reasons) < 2:  # the exhausted iterator raises; the thread goes on
        pass
    writer.stop()
