"""Who speaks in a batch is read from Spark's log of offsets, wherever the checkpoint is."""

import json

import pytest

from app.errors import SnapshotError
from app.pipeline.planned import PlannedOffsets
from app.storage.open import open_store
from app.storage.store import StorageError

HEAD = 'v1\n{"batchWatermarkMs":0}\n'


@pytest.fixture(params=["posix", "objects"])
def uri(request, tmp_path):
    if request.param == "posix":
        return str(tmp_path)
    server = request.getfixturevalue("s3_server").removeprefix("http://")
    return f"s3://{request.getfixturevalue('bucket')}/checkpoint?scheme=http&endpoint_override={server}"


def plan(uri, batch, ends):
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps(ends)]
    open_store(uri).write(f"spark/offsets/{batch}", ["\n".join(lines).encode()])


def log(folder, text):
    open_store(str(folder)).write("spark/offsets/7", [text.encode()])


def test_topic_partitions_whose_end_moved_speak(uri):
    plan(uri, 3, {"a": {"0": 10, "1": 20}, "b": {"0": 5}})
    plan(uri, 4, {"a": {"0": 11, "1": 20}, "b": {"0": 5, "1": 1}})
    assert PlannedOffsets(uri).speakers(4) == {("a", 0), ("b", 1)}


def test_in_the_first_batch_those_with_records_speak(uri):
    plan(uri, 0, {"a": {"0": 10, "1": 0}})
    assert PlannedOffsets(uri).speakers(0) == {("a", 0)}


def test_a_batch_that_was_not_planned_says_nothing(uri):
    assert PlannedOffsets(uri).speakers(7) is None


def test_the_newest_planned_batch_says_where_reading_goes_on(uri):
    planned = PlannedOffsets(uri)
    assert planned.latest() is None
    plan(uri, 9, {"a": {"0": 10}})
    plan(uri, 10, {"a": {"0": 12}})
    assert planned.latest() == {("a", 0): 12}


@pytest.mark.parametrize("offset", ['{"logOffset":3}', "5", "-"])
def test_other_sources_say_nothing(tmp_path, offset):
    log(tmp_path, HEAD + offset)
    assert PlannedOffsets(str(tmp_path)).speakers(7) is None


@pytest.mark.parametrize("torn", ["", HEAD, HEAD + '{"a":{"0":'])
def test_a_torn_log_is_no_silence(tmp_path, torn):
    log(tmp_path, torn)
    with pytest.raises(SnapshotError, match="no offsets of a batch"):
        PlannedOffsets(str(tmp_path)).speakers(7)


def test_a_log_that_cannot_be_read_is_an_error(tmp_path):
    (tmp_path / "spark/offsets/4").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot read spark/offsets/4"):
        PlannedOffsets(str(tmp_path)).speakers(4)
