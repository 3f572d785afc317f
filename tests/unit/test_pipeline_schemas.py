"""Writers' schemas are kept in the checkpoint, so that a registry that is down stops nobody who is known."""

import pytest

from app.errors import DependencyError, SnapshotError
from app.events.avro import parse_schema
from app.events.registry import RegistrySettings
from app.pipeline.schemas import KeptSchemas, SchemaKeeping
from app.storage.frames import framed

SCHEMA = parse_schema('{"type": "record", "name": "a.B", "fields": [{"name": "x", "type": "int"}]}')


class FakeRegistry:
    """Answers from a dictionary while it is up; counts the questions. The real one is asked in tests/kafka."""

    def __init__(self, known=None):
        self.known, self.up, self.asked = known or {}, True, 0

    def schema(self, key):
        self.asked += 1
        if not self.up:
            raise DependencyError("down")
        return self.known.get(key)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def keeping(tmp_path):
    return SchemaKeeping(str(tmp_path), RegistrySettings("http://nowhere"), retry_for_s=5)


def kept(keeping, registry, clock=None):
    clock = clock or Clock()
    return KeptSchemas(keeping, registry, clock, clock.sleep)


def test_a_known_schema_needs_no_registry_in_another_worker(keeping):
    kept(keeping, FakeRegistry({7: SCHEMA})).schema(7)
    down = FakeRegistry()
    down.up = False
    assert kept(keeping, down).schema(7).root == SCHEMA.root
    assert down.asked == 0


def test_an_unknown_id_is_not_kept(keeping):
    registry = FakeRegistry()
    assert kept(keeping, registry).schema(9) is None
    registry.known[9] = SCHEMA
    assert kept(keeping, registry).schema(9) is not None


def test_a_registry_that_is_down_is_asked_again_for_a_while_then_given_up(keeping):
    clock, down = Clock(), FakeRegistry()
    down.up = False
    schemas = kept(keeping, down, clock)
    assert schemas.schema(7) is None
    assert 5 <= clock.now - 100 < 7
    before, asked = clock.now, down.asked
    assert schemas.schema(8) is None, "the next unknown id does not wait again"
    assert (clock.now, down.asked) == (before, asked)


def test_a_registry_that_was_given_up_is_waited_for_once_per_outage_and_found_again(keeping):
    clock, registry = Clock(), FakeRegistry({7: SCHEMA})
    registry.up = False
    schemas = kept(keeping, registry, clock)
    assert schemas.schema(7) is None
    for _ in range(3):
        clock.now += 60
        before = clock.now
        assert schemas.schema(7) is None
        assert clock.now == before, "the same outage: nobody waits again"
    registry.up = True
    clock.now += 60
    assert schemas.schema(7) is not None
    registry.up, before = False, clock.now
    assert schemas.schema(8) is None
    assert clock.now >= before + 5, "another outage: patient again"


def test_a_registry_that_comes_back_in_time_loses_nothing(keeping):
    clock, registry = Clock(), FakeRegistry({7: SCHEMA})
    registry.up = False

    def sleep(seconds):
        clock.sleep(seconds)
        registry.up = clock.now > 102

    assert KeptSchemas(keeping, registry, clock, sleep).schema(7) is not None


def test_ids_of_another_registry_mean_other_schemas(keeping, tmp_path):
    kept(keeping, FakeRegistry({7: SCHEMA})).schema(7)
    other = SchemaKeeping(str(tmp_path), RegistrySettings("http://elsewhere"), 0.0)
    assert kept(other, FakeRegistry()).schema(7) is None


def test_a_damaged_file_is_fetched_and_written_anew(keeping, tmp_path):
    kept(keeping, FakeRegistry({7: SCHEMA})).schema(7)
    (file,) = (tmp_path / "schemas").rglob("7.bin")
    whole = file.read_bytes()
    for damaged in (whole[:-3], b"", b"something else"):
        file.write_bytes(damaged)
        assert kept(keeping, FakeRegistry({7: SCHEMA})).schema(7).root == SCHEMA.root
        assert file.read_bytes() == whole


def test_a_file_of_a_newer_version_is_refused_by_name(keeping, tmp_path):
    kept(keeping, FakeRegistry({7: SCHEMA})).schema(7)
    (file,) = (tmp_path / "schemas").rglob("7.bin")
    file.write_bytes(b"".join(framed("schema", 2, [b"{}"])))
    with pytest.raises(SnapshotError, match=r"7.bin in .* is written by a newer version \(format 2, this one reads 1\)"):
        kept(keeping, FakeRegistry({7: SCHEMA})).schema(7)


def test_schemas_are_kept_in_a_bucket_as_well(bucket, s3_server):
    uri = f"s3://{bucket}/checkpoint?scheme=http&endpoint_override={s3_server.removeprefix('http://')}"
    keeping = SchemaKeeping(uri, RegistrySettings("http://nowhere"), retry_for_s=5)
    kept(keeping, FakeRegistry({7: SCHEMA})).schema(7)
    assert kept(keeping, FakeRegistry()).schema(7).root == SCHEMA.root
