"""Topics come, go, and are created again: what becomes of their numbers, and where they are read on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from app.errors import SnapshotError
from app.pipeline.numbers import Numbers
from app.pipeline.offsets import Correction, OffsetLog
from app.pipeline.resumption import Kafka, resumption
from app.storage.posix import PosixStore
from app.storage.store import Part, StorageAwayError

IDS = {"a": "A", "b": "B", "beat": "H"}
KNOWN = Numbers().reading(["a", "b"], IDS)


def earliest(**topics: int) -> dict[tuple[str, int], int]:
    return {(topic, partition): offset for topic, offset in topics.items() for partition in (0, 1)}


def test_a_fresh_checkpoint_only_gets_numbers() -> None:
    found = resumption(Numbers(), ["a", "b"], Kafka(IDS, earliest(a=7, b=0)), {})
    assert (found.numbers, found.correction, found.lost) == (KNOWN, Correction(), ())


def test_what_is_read_as_before_is_left_alone() -> None:
    found = resumption(KNOWN, ["a", "b"], Kafka(IDS, earliest(a=7, b=0)), earliest(a=9, b=3))
    assert (found.noted, found.numbers, bool(found.correction), found.lost) == (KNOWN, KNOWN, False, ())


def test_a_topic_that_is_read_again_goes_on_where_it_was_left() -> None:
    gone = resumption(KNOWN, ["a"], Kafka(IDS, earliest(a=0)), {**earliest(a=9), ("b", 0): 3, ("b", 1): 4})
    assert gone.correction == Correction(frozenset({"b"}))
    assert gone.numbers.labels == ("a", "b")
    back = resumption(gone.numbers, ["a", "b"], Kafka(IDS, earliest(a=0, b=1)), earliest(a=9))
    assert back.correction == Correction(starts={("b", 0): 3, ("b", 1): 4})
    assert back.numbers.labels == ("a", "b")
    assert not back.lost


def test_records_that_were_deleted_while_a_topic_was_not_read_are_told() -> None:
    gone = resumption(KNOWN, ["a"], Kafka(IDS, earliest(a=0)), {**earliest(a=9), ("b", 0): 3, ("b", 1): 4})
    back = resumption(gone.numbers, ["a", "b"], Kafka(IDS, {("b", 0): 2, ("b", 1): 6}), earliest(a=9))
    assert back.correction.starts == {("b", 0): 3, ("b", 1): 6}
    assert [finding.message for finding in back.lost] == ['topic "b": the records 4 to 5 of partition 1 are gone']


def test_a_new_topic_is_read_from_the_first_record_that_is_there() -> None:
    found = resumption(KNOWN, ["a", "b", "beat"], Kafka(IDS, earliest(a=0, b=0, beat=5)), earliest(a=9, b=3))
    assert found.correction == Correction(starts=earliest(beat=5))
    assert found.numbers.labels == ("a", "b", "beat")
    assert not found.lost


def test_a_topic_that_was_created_again_gets_a_number_and_is_read_from_its_beginning() -> None:
    found = resumption(KNOWN, ["a", "b"], Kafka({**IDS, "b": "X"}, earliest(a=0, b=0)), earliest(a=9, b=3))
    assert found.correction == Correction(frozenset({"b"}), earliest(b=0))
    assert (found.noted.labels, found.numbers.labels) == (("a", "b"), ("a", "b", "b#2"))
    assert [finding.message for finding in found.lost] == [
        'topic "b" was deleted and created again; what it held behind the offsets that were read (0: 3, 1: 3) is gone'
    ]
    beat = resumption(KNOWN, ["a", "b"], Kafka({**IDS, "b": "X"}, earliest(a=0, b=0)), earliest(a=9, b=3), {"b"})
    assert not beat.lost
    assert beat.numbers == found.numbers


def test_a_topic_that_was_created_again_while_nobody_read_it_begins_at_its_beginning() -> None:
    gone = resumption(KNOWN, ["a"], Kafka(IDS, earliest(a=0)), earliest(a=9, b=3))
    back = resumption(gone.numbers, ["a", "b"], Kafka({**IDS, "b": "X"}, earliest(a=0, b=0)), earliest(a=9))
    assert back.correction.starts == earliest(b=0)
    assert back.numbers.labels == ("a", "b", "b#2")
    assert not back.lost


def test_whoever_is_interrupted_does_the_same_again() -> None:
    kafka = Kafka({**IDS, "a": "X"}, earliest(a=0))
    first = resumption(KNOWN, ["a"], kafka, earliest(a=9, b=3))
    log = first.correction.of(earliest(a=9, b=3))
    for numbers, logged in ((first.noted, earliest(a=9, b=3)), (first.noted, log)):
        again = resumption(numbers, ["a"], kafka, logged)
        assert again.numbers == first.numbers
        assert again.correction.of(logged) == log


def test_a_new_topic_in_the_log_of_whoever_was_interrupted_was_not_created_again() -> None:
    read, kafka, logged = ["a", "b", "beat"], Kafka(IDS, earliest(a=0, b=0, beat=5)), earliest(a=9, b=3)
    first = resumption(KNOWN, read, kafka, logged)
    again = resumption(first.noted, read, kafka, first.correction.of(logged))
    assert (again.numbers, bool(again.correction), again.lost) == (first.numbers, False, ())


def entry(topics: dict[str, dict[str, int]]) -> str:
    return "\n".join(["v1", '{"batchWatermarkMs":0}', json.dumps(topics)])


def log_of(folder: Path, planned: dict[int, dict], committed: list[int]) -> OffsetLog:
    for name in ("offsets", "commits", "sources/0"):
        (folder / "spark" / name).mkdir(parents=True, exist_ok=True)
    for batch, topics in planned.items():
        (folder / "spark" / "offsets" / str(batch)).write_text(entry(topics))
        (folder / "spark" / "offsets" / f".{batch}.crc").write_text("checksum")
    for batch in committed:
        (folder / "spark" / "commits" / str(batch)).write_text("v1\n{}")
    (folder / "spark" / "sources" / "0" / "0").write_text('\0v1\n{"a":{"0":0}}')
    return OffsetLog(str(folder))


CORRECTION = Correction(frozenset({"b"}), {("c", 0): 5})


def test_the_last_entry_of_a_committed_log_is_corrected(tmp_path: Path) -> None:
    log = log_of(tmp_path, {7: {"a": {"0": 1}}, 8: {"a": {"0": 2}, "b": {"0": 3}}}, [7, 8])
    assert log.committed() == {("a", 0): 2, ("b", 0): 3}
    log.correct(CORRECTION)
    assert log.committed() == {("a", 0): 2, ("c", 0): 5}
    text = (tmp_path / "spark" / "offsets" / "8").read_text()
    assert text == 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":2},"c":{"0":5}}'
    assert not (tmp_path / "spark" / "offsets" / ".8.crc").exists(), "it would not fit any more"
    assert (tmp_path / "spark" / "offsets" / "7").read_text() == entry({"a": {"0": 1}})


def test_a_batch_that_is_not_committed_is_repeated_from_where_it_began(tmp_path: Path) -> None:
    log = log_of(tmp_path, {7: {"a": {"0": 1}, "b": {"0": 3}}, 8: {"a": {"0": 2}, "b": {"0": 4}, "d": {"0": 9}}}, [7])
    assert log.committed() == {("a", 0): 1, ("b", 0): 3}
    log.correct(CORRECTION)
    assert log.committed() == {("a", 0): 1, ("c", 0): 5}
    assert json.loads((tmp_path / "spark" / "offsets" / "8").read_text().splitlines()[2]) == {
        "a": {"0": 2},
        "d": {"0": 9},
        "c": {"0": 5},
    }


def test_a_topic_partition_that_came_with_a_planned_batch_begins_at_its_beginning(tmp_path: Path) -> None:
    log = log_of(tmp_path, {7: {"a": {"0": 1}}, 8: {"a": {"0": 2, "1": 4}}}, [7])
    assert log.committed() == {("a", 0): 1, ("a", 1): 0}


def test_a_topic_that_comes_back_is_not_read_twice_by_whoever_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = log_of(tmp_path, {7: {"a": {"0": 1}}, 8: {"a": {"0": 2}}}, [7]), PosixStore.write
    numbers, kafka = KNOWN.left_at({("b", 0): 5}), Kafka(IDS, {("a", 0): 0, ("b", 0): 0})

    def full(store: PosixStore, name: str, parts: Iterable[Part]) -> int:
        if name.endswith("/7"):
            raise StorageAwayError("no space left on device")
        return write(store, name, parts)

    def start() -> None:
        log.correct(resumption(numbers, ["a", "b"], kafka, log.committed()).correction)

    monkeypatch.setattr(PosixStore, "write", full)
    with pytest.raises(StorageAwayError):
        start()
    monkeypatch.setattr(PosixStore, "write", write)
    start()
    assert log.committed() == {("a", 0): 1, ("b", 0): 5}
    ends = [json.loads((tmp_path / "spark" / "offsets" / name).read_text().splitlines()[2]) for name in ("7", "8")]
    assert ends == [{"a": {"0": 1}, "b": {"0": 5}}, {"a": {"0": 2}, "b": {"0": 5}}]


def test_a_first_batch_begins_where_spark_has_noted_it(tmp_path: Path) -> None:
    log = log_of(tmp_path, {0: {"a": {"0": 2}}}, [])
    assert log.committed() == {("a", 0): 0}
    log.correct(CORRECTION)
    assert (tmp_path / "spark" / "sources" / "0" / "0").read_text() == '\0v1\n{"a":{"0":0},"c":{"0":5}}'


@pytest.mark.parametrize("cut", [0, 2, 3])
def test_a_torn_entry_is_told_and_not_taken_for_an_empty_one(tmp_path: Path, cut: int) -> None:
    log = log_of(tmp_path, {7: {"a": {"0": 1}}}, [7])
    path = tmp_path / "spark" / "offsets" / "7"
    path.write_text(path.read_text()[: -cut or None] if cut else "")
    with pytest.raises(SnapshotError, match=r"spark/offsets/7 is torn"):
        log.committed()


@pytest.mark.parametrize("last", ['{"logOffset":3}', "-"])
def test_sources_that_are_not_kafka_or_have_not_begun_have_no_offsets(tmp_path: Path, last: str) -> None:
    log = log_of(tmp_path, {7: {}}, [7])
    (tmp_path / "spark" / "offsets" / "7").write_text(f"v1\n{{}}\n{last}")
    assert log.committed() == {}


def test_a_fresh_checkpoint_has_no_log(tmp_path: Path) -> None:
    assert OffsetLog(str(tmp_path)).committed() == {}
    OffsetLog(str(tmp_path)).correct(CORRECTION)


def test_heartbeats_that_expired_unread_are_no_lost_records() -> None:
    known = Numbers().reading(["a", "beat"], IDS)
    logged = {**earliest(a=9), ("beat", 0): 3, ("beat", 1): 8}
    found = resumption(known, ["a", "beat"], Kafka(IDS, earliest(a=7, beat=5)), logged, {"beat"})
    assert found.correction == Correction(starts={("beat", 0): 5}), "what can still be read is read"
    assert not found.lost


def spark_log(folder: Path, offsets: dict[int, str], commits: dict[int, str]) -> OffsetLog:
    for name, entries in {"offsets": offsets, "commits": commits}.items():
        (folder / "spark" / name).mkdir(parents=True)
        for batch, text in entries.items():
            (folder / "spark" / name / str(batch)).write_text(text)
            (folder / "spark" / name / f".{batch}.crc").write_text("sum")
    return OffsetLog(str(folder))


ENTRY = 'v1\n{"batchWatermarkMs":0}\n{"a":{"0":%d}}'


@pytest.mark.parametrize("nothing", ["", "\0\0\0"])
def test_entries_that_a_power_cut_left_empty_are_dropped(tmp_path, nothing) -> None:
    log = spark_log(tmp_path, {0: ENTRY % 3, 1: ENTRY % 5, 2: nothing}, {0: "v1\n{}", 1: nothing})
    assert log.drop_torn(1) == ["commits/1", "offsets/2"]
    assert sorted(path.name for path in (tmp_path / "spark").rglob("*") if path.is_file()) == [".0.crc", ".0.crc", ".1.crc", "0", "0", "1"]
    assert log.committed() == {("a", 0): 3}
    assert log.drop_torn(1) == []


def test_offsets_that_a_directive_was_decided_by_are_not_dropped(tmp_path) -> None:
    log = spark_log(tmp_path, {0: ENTRY % 3, 1: ""}, {0: "v1\n{}"})
    assert log.drop_torn(1) == []
    with pytest.raises(SnapshotError, match="torn"):
        log.committed()
