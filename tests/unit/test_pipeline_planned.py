"""Who speaks in a batch is known, or nobody may guess."""

import pytest

from app.errors import SnapshotError
from app.pipeline.planned import PlannedOffsets

HEAD = 'v1\n{"batchWatermarkMs":0}\n'


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "spark" / "offsets"
    folder.mkdir(parents=True)
    return folder


def test_topic_partitions_whose_end_moved_speak(log, tmp_path):
    (log / "6").write_text(HEAD + '{"a":{"0":10,"1":5},"b":{"0":0}}')
    (log / "7").write_text(HEAD + '{"a":{"0":12,"1":5},"b":{"0":0},"c":{"3":1}}')
    assert PlannedOffsets(str(tmp_path)).speakers(7) == {("a", 0), ("c", 3)}


def test_the_newest_planned_batch_says_where_reading_goes_on(log, tmp_path):
    planned = PlannedOffsets(str(tmp_path))
    assert planned.latest() is None
    assert PlannedOffsets(str(tmp_path / "nowhere")).latest() is None
    (log / "9").write_text(HEAD + '{"a":{"0":10}}')
    (log / "10").write_text(HEAD + '{"a":{"0":12}}')
    (log / ".10.crc").write_text("")
    assert planned.latest() == {("a", 0): 12}


def test_a_batch_that_is_not_planned_and_other_sources_say_nothing(log, tmp_path):
    planned = PlannedOffsets(str(tmp_path))
    assert planned.speakers(7) is None
    for offset in ('{"logOffset":3}', "5", "-"):
        (log / "7").write_text(HEAD + offset)
        assert planned.speakers(7) is None, offset


def test_a_log_that_cannot_be_read_is_no_silence(log, tmp_path):
    (log / "7").mkdir()
    with pytest.raises(OSError, match="7"):
        PlannedOffsets(str(tmp_path)).speakers(7)
    (log / "7").rmdir()
    for torn in ("", HEAD, HEAD + '{"a":{"0":'):
        (log / "7").write_text(torn)
        with pytest.raises(SnapshotError, match="no offsets of a batch"):
            PlannedOffsets(str(tmp_path)).speakers(7)
