"""Writers' schemas are kept in the checkpoint; what happens to unseen ones while the registry is away is decided once, by the driver."""

import pytest

from app.config.settings import SchemaRegistry
from app.control.server.registry_watch import Decided, RegistryWatch
from app.errors import DependencyError, SnapshotError
from app.events.avro import parse_schema
from app.events.registry import RegistrySettings
from app.observe.metrics import Metrics
from app.pipeline.schemas import DECIDED, DECISION, KeptDecisions, KeptSchemas, SchemaKeeping
from app.storage.frames import framed, write_frame
from app.storage.open import open_store

SCHEMA = parse_schema('{"type": "record", "name": "a.B", "fields": [{"name": "x", "type": "int"}]}')


class FakeRegistry:
    """Answers from a dictionary while it is up; counts the questions. The real one is asked in tests/kafka."""

    def __init__(self, known=None, *, up=True):
        self.known, self.up, self.asked = known or {}, up, 0

    def schema(self, key):
        self.asked += 1
        if not self.up:
            raise DependencyError("down")
        return self.known.get(key)


class World:
    """A driver and its workers, with a clock set by hand that every wait moves on."""

    def __init__(self, folder, **settings):
        self.folder, self.now_ms, self.metrics = folder, 1000, Metrics()
        self.settings = SchemaRegistry(url="http://nowhere", **settings)
        self.restart()
        self.on_sleep = lambda: None

    def restart(self):
        self.watch = RegistryWatch(self.settings, self.metrics, lambda: self.now_ms)
        self.watch.decisions = KeptDecisions(str(self.folder))

    def sleep(self, seconds):
        self.now_ms += round(seconds * 1000)
        self.on_sleep()

    def worker(self, registry, batch=3, url="http://nowhere"):
        keeping = SchemaKeeping(str(self.folder), RegistrySettings(url), self.settings.on_registry_down == "dead_letter")
        schemas = KeptSchemas(keeping, registry, self.sleep)
        schemas.begin(batch, self.watch.rule)
        return schemas

    def waited_s(self):
        return (self.now_ms - 1000) / 1000


@pytest.fixture
def waiting(tmp_path):
    return World(tmp_path, wait_for="60 s")


@pytest.fixture
def impatient(tmp_path):
    return World(tmp_path, on_registry_down="dead_letter", retry_for="5 s", wait_for="60 s")


def test_a_known_schema_needs_no_registry_in_another_worker(waiting):
    waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    down = FakeRegistry(up=False)
    assert waiting.worker(down).schema(7).root == SCHEMA.root
    assert down.asked == 0


def test_an_unknown_id_is_not_kept(waiting):
    registry = FakeRegistry()
    worker = waiting.worker(registry)
    assert worker.schema(9) is None
    registry.known[9] = SCHEMA
    assert worker.schema(9) is not None


class CountingStore:
    """Counts what a store is asked."""

    def __init__(self, store):
        self.store, self.asked = store, []

    def __getattr__(self, name):
        self.asked.append(name)
        return getattr(self.store, name)


def test_a_flood_of_random_ids_is_one_listing_of_the_checkpoint_per_task(waiting):
    waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    worker = waiting.worker(FakeRegistry())
    worker._store = counting = CountingStore(worker._store)
    for task in range(1, 3):
        worker.begin(3, waiting.watch.rule)
        assert [worker.schema(key) for key in range(1000, 2000)] == [None] * 1000
        assert worker.schema(7) is not None
        assert counting.asked.count("names") == task
    assert counting.asked.count("read") == 1


def test_a_repeated_task_finds_what_another_one_of_the_batch_has_found(waiting):
    """Though it looked for it in vain before: what was an event stays one."""
    worker = waiting.worker(FakeRegistry())
    assert worker.schema(7) is None
    waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    worker.begin(3, waiting.watch.rule)
    assert worker.schema(7) is not None


def test_ids_of_another_registry_mean_other_schemas(waiting):
    waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    assert waiting.worker(FakeRegistry(), url="http://elsewhere").schema(7) is None


def test_a_registry_that_is_away_is_waited_for_and_loses_nothing(waiting):
    registry = FakeRegistry({7: SCHEMA}, up=False)

    def comes_back():
        registry.up = waiting.waited_s() > 40
        told = waiting.metrics.value("cep_schema_registry_waiting_seconds")
        assert 0 <= waiting.waited_s() - told <= 1, "the gauge says it while it lasts"

    waiting.on_sleep = comes_back
    assert waiting.worker(registry).schema(7) is not None
    assert 40 < waiting.waited_s() < 42
    assert waiting.metrics.value("cep_schema_registry_waiting_seconds") == 0
    assert waiting.metrics.value("cep_schema_registry_errors_total") == registry.asked - 1


def test_a_worker_that_waits_takes_what_another_one_found_meanwhile(waiting):
    waiting.on_sleep = lambda: waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    assert waiting.worker(FakeRegistry(up=False)).schema(7) is not None


def test_waiting_has_a_limit_for_all_attempts_together_and_never_makes_a_dead_letter(waiting):
    registry = FakeRegistry({7: SCHEMA}, up=False)
    with pytest.raises(DependencyError, match=r"the schema registry has been away for 60 s, and batch 3 needs its schema 7: down"):
        waiting.worker(registry).schema(7)
    asked = registry.asked
    with pytest.raises(DependencyError, match="has been away for 60 s"):  # Spark repeats the task in another worker
        waiting.worker(registry).schema(7)
    assert registry.asked == asked + 1
    registry.up = True
    assert waiting.worker(registry).schema(7) is not None


def test_a_short_wait_ends_though_every_question_takes_longer(tmp_path):
    hasty = World(tmp_path, wait_for="5 s")

    class Silent(FakeRegistry):
        def schema(self, key):
            hasty.now_ms += 6_000  # nobody answers, and the question has a limit of its own
            return super().schema(key)

    with pytest.raises(DependencyError, match="has been away for"):
        hasty.worker(Silent(up=False)).schema(7)


def test_an_outage_is_over_with_the_batch_that_waited(waiting):
    registry = FakeRegistry({7: SCHEMA, 8: SCHEMA}, up=False)
    waiting.on_sleep = lambda: waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    waiting.worker(registry).schema(7)  # taken from the checkpoint: nobody told that the registry answers
    waiting.on_sleep = lambda: None
    waiting.watch.committed(2)
    assert waiting.watch._outage.failures == 1, "the batch before: its end is told late"
    waiting.watch.committed(3)
    assert waiting.metrics.value("cep_schema_registry_waiting_seconds") == 0
    waiting.now_ms += 3_600_000
    with pytest.raises(DependencyError, match="away for 60 s"):
        waiting.worker(registry, 4).schema(8)


def test_dead_letters_are_made_after_a_while_if_that_is_wanted(impatient):
    down = FakeRegistry(up=False)
    worker = impatient.worker(down)
    assert worker.schema(7) is None
    assert 5 <= impatient.waited_s() < 7
    before, asked = impatient.now_ms, down.asked
    assert worker.schema(8) is None, "the next unseen id does not wait again"
    assert impatient.worker(down).schema(9) is None, "nor does another worker"
    assert (impatient.now_ms, down.asked) == (before, asked + 1)


def test_a_later_batch_asks_again_but_waits_no_more_in_the_same_outage(impatient):
    registry = FakeRegistry({7: SCHEMA}, up=False)
    worker = impatient.worker(registry)
    assert worker.schema(7) is None
    before = impatient.now_ms
    worker.begin(4, impatient.watch.rule)
    assert worker.schema(7) is None
    assert impatient.now_ms == before
    registry.up = True
    worker.begin(5, impatient.watch.rule)
    assert worker.schema(7) is not None
    registry.up = False
    worker.begin(6, impatient.watch.rule)
    assert worker.schema(8) is None
    assert impatient.now_ms >= before + 5000, "another outage: patient again"


def test_a_repeated_batch_makes_the_same_dead_letters_though_the_registry_is_back(impatient):
    registry = FakeRegistry({7: SCHEMA, 8: SCHEMA}, up=False)
    assert impatient.worker(registry).schema(7) is None
    registry.up = True
    assert impatient.worker(registry).schema(7) is None, "another task of the batch"
    assert impatient.worker(registry).schema(8) is None
    impatient.restart()
    assert impatient.worker(registry).schema(7) is None, "after a restart"
    assert impatient.worker(registry, batch=4).schema(7) is not None


def test_a_schema_that_one_task_used_is_waited_for_by_the_others_of_the_batch(impatient):
    impatient.worker(FakeRegistry({7: SCHEMA})).schema(7)
    down = FakeRegistry({8: SCHEMA}, up=False)
    assert impatient.worker(down).schema(8) is None
    (kept,) = impatient.folder.glob("schemas/*/7.bin")
    kept.unlink()  # decided, and the worker died before it had written it
    impatient.restart()
    registry = FakeRegistry({7: SCHEMA}, up=False)

    def comes_back():
        registry.up = impatient.waited_s() > 20

    impatient.on_sleep = comes_back
    assert impatient.worker(registry).schema(7) is not None
    assert impatient.waited_s() > 20


def test_decisions_of_batches_long_past_go(impatient):
    for batch in (3, 50, 104):
        assert impatient.worker(FakeRegistry(up=False), batch).schema(7) is None
    assert [int(path.stem) for path in sorted(impatient.folder.glob("schemas/decided/*.bin"))] == [50, 104]


def test_a_decision_that_says_nothing_is_refused(tmp_path):
    write_frame(open_store(str(tmp_path)), f"{DECIDED}/{3:020}.bin", DECISION, 1, [b"[]"])
    with pytest.raises(SnapshotError, match="says nothing"):
        KeptDecisions(str(tmp_path)).read(3)
    assert KeptDecisions(str(tmp_path)).read(4) == Decided()


def test_a_damaged_file_is_fetched_and_written_anew(waiting):
    waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    (file,) = (waiting.folder / "schemas").rglob("7.bin")
    whole = file.read_bytes()
    for damaged in (whole[:-3], b"", b"something else"):
        file.write_bytes(damaged)
        assert waiting.worker(FakeRegistry({7: SCHEMA})).schema(7).root == SCHEMA.root
        assert file.read_bytes() == whole


def test_a_file_of_a_newer_version_is_refused_by_name(waiting):
    waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)
    (file,) = (waiting.folder / "schemas").rglob("7.bin")
    file.write_bytes(b"".join(framed("schema", 2, [b"{}"])))
    with pytest.raises(SnapshotError, match=r"7.bin in .* is written by a newer version \(format 2, this one reads 1\)"):
        waiting.worker(FakeRegistry({7: SCHEMA})).schema(7)


def test_schemas_and_decisions_are_kept_in_a_bucket_as_well(bucket, s3_server):
    uri = f"s3://{bucket}/checkpoint?scheme=http&endpoint_override={s3_server.removeprefix('http://')}"
    world = World(uri, on_registry_down="dead_letter", retry_for="5 s")
    world.worker(FakeRegistry({7: SCHEMA})).schema(7)
    assert world.worker(FakeRegistry()).schema(7).root == SCHEMA.root
    assert world.worker(FakeRegistry(up=False)).schema(8) is None
    world.restart()
    assert world.worker(FakeRegistry({8: SCHEMA})).schema(8) is None
