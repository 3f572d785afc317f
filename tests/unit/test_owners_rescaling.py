"""A state that is moved: what it finds afterwards, whatever ends the move in the middle."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

from app.cli.main import main
from app.config.settings import Settings, load_settings
from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Frozen
from app.errors import SnapshotError
from app.events.registry import Registry, RegistrySettings
from app.owners.deployment import Deployment, load_deployment
from app.owners.home import Home
from app.owners.inventory import faults
from app.owners.orders import EPOCHS_PER_RUN, Advance, BucketOrder, OwnerSettings
from app.owners.skipping import skip
from app.owners.sole import sole_driver
from app.pipeline.draining import past_of
from app.pipeline.moving import RescaleError, move_to_readers, numbers_after_moves, rescale
from app.pipeline.numbers import Numbers, load_numbers, store_numbers
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.storage.posix import PosixStore
from tests.unit.owners_world import BUCKETS, CHOOSY, TASKS, MicroBatch, World, identities

COMMITTED, BATCHES = 4, 8


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> World:
    """An application that ended in the middle of a batch: planned, decided, not committed, and one of its two buckets had worked it off."""
    return ended(World(tmp_path_factory.mktemp("stopped"), BATCHES, changed_at=3))


def ended(world: World) -> World:
    """The application of this world ends in the middle of a batch."""
    store_numbers(str(world.checkpoint), Numbers().in_buckets(BUCKETS))
    log, store, home = BatchLog(PosixStore(world.checkpoint)), PosixStore(world.checkpoint), world.home()
    epoch = log.begin_run() * EPOCHS_PER_RUN
    for batch in range(COMMITTED + 2):
        log.directive(batch, lambda number, _: Frozen(world.batches[number].directive, {"watchdogs": {"known": 7}}))
        store.write(f"spark/offsets/{batch}", [b"v1\n{}\n-"])
        if batch <= COMMITTED:
            world.advance(home, batch, epoch)
            store.write(f"spark/commits/{batch}", [b"v1\n{}"])
    world.advance(home, COMMITTED + 1, epoch, buckets=[1])
    home.close()
    return world


def copied(world: World, folder: Path) -> str:
    shutil.copytree(world.checkpoint, folder / "checkpoint")
    return str(folder / "checkpoint")


@pytest.fixture(scope="module")
def delivered(tmp_path_factory) -> Callable[[str], list[MicroBatch]]:
    """The same stream, delivered to as many buckets as a checkpoint has."""

    @lru_cache
    def to(buckets: int) -> list[MicroBatch]:
        return World(tmp_path_factory.mktemp("delivered"), BATCHES, changed_at=3, buckets=buckets).batches

    return lambda checkpoint: to(load_numbers(checkpoint).buckets)


def goes_on(checkpoint: str, batches: Sequence[MicroBatch]) -> list[list[str]]:
    """What is found in the batches after the committed one, in as many buckets as the checkpoint says."""
    numbers = numbers_after_moves(checkpoint)
    log, found = BatchLog(PosixStore(Path(checkpoint))), []
    home = Home(OwnerSettings("again", checkpoint, numbers.home.folder))
    epoch, newest = log.begin_run() * EPOCHS_PER_RUN, log.latest()
    assert load_deployment(checkpoint, newest.directive.deployment).buckets == numbers.buckets, "the ingress goes by it"
    for number, batch in enumerate(batches[COMMITTED + 1 :], COMMITTED + 1):
        directive = newest.of_batch(number, batch.directive.greatest_times).directive
        orders = tuple(BucketOrder(bucket, epoch + bucket) for bucket in range(numbers.buckets))
        _, returned = home.advance(
            Advance("again", number, 1, directive, batch.greatest, dict.fromkeys(range(TASKS), 0), orders), batch.deliveries
        )
        found.append(identities(returned))
    home.close()
    return found


READER = """\
name: twice
from: [query:hasty]
event: SEQ(hasty a, hasty b)
where: "[symbol]"
within: 10 s
"""


def read_by_another(stopped: World, checkpoint: str) -> tuple[Settings, Deployment]:
    """The application with a query more, which reads the one that runs."""
    folder = Path(checkpoint).parent
    shutil.copy(stopped.checkpoint.parent / "hasty.yaml", folder)
    (folder / "twice.yaml").write_text(READER)
    plain = yaml.safe_load((stopped.checkpoint.parent / "settings.yaml").read_text())
    plain |= {"queries": {"paths": ["hasty.yaml", "twice.yaml"]}, "checkpoint": {"path": checkpoint}}
    (folder / "reader.yaml").write_text(yaml.safe_dump(plain))
    settings, registry = load_settings(folder / "reader.yaml", {}), Registry(RegistrySettings("mock://owners"))
    streams = read_streams(settings, registry)
    return settings, prepare(settings, compile_queries(settings, streams), streams, registry, past_of(settings))


def untold(what: str) -> None:
    pass


@pytest.mark.parametrize("buckets", [1, 3, 5])
def test_the_batches_afterwards_find_what_they_find_undisturbed(stopped, delivered, tmp_path, buckets):
    checkpoint = copied(stopped, tmp_path)
    done = rescale(checkpoint, buckets, untold)
    assert (done.before, done.state.committed, len(done.state.sizes)) == (BUCKETS, COMMITTED, buckets)
    expected = stopped.expected()[COMMITTED + 1 :]
    assert sum(map(len, expected)) > 50
    assert goes_on(checkpoint, delivered(checkpoint)) == expected


def test_what_was_told_and_bounded_memory_move_as_well(tmp_path_factory):
    """What goes by what was told before, and which tuples stay in memory: from bucket to bucket, several times."""
    plain = {"batches": BATCHES, "events": 1500, "query": CHOOSY}
    world = ended(World(tmp_path_factory.mktemp("stopped"), **plain))
    expected, checkpoint = world.expected(), str(world.checkpoint)
    for buckets in (3, 2, 5):
        rescale(checkpoint, buckets, untold)
    delivered = World(tmp_path_factory.mktemp("delivered"), **plain, buckets=5).batches
    assert goes_on(checkpoint, delivered) == expected[COMMITTED + 1 :]
    assert sum(map(len, expected[COMMITTED + 1 :])) > 50


def test_there_and_back_again(stopped, delivered, tmp_path):
    checkpoint = copied(stopped, tmp_path)
    for buckets in (3, 1, BUCKETS):
        rescale(checkpoint, buckets, untold)
    assert sorted({path.parts[-3] for path in Path(checkpoint).glob("state*/*/*.bin")}) == ["state-3"]
    assert goes_on(checkpoint, delivered(checkpoint)) == stopped.expected()[COMMITTED + 1 :]


def test_the_unfinished_batch_keeps_its_decisions_under_a_deployment_of_the_new_number(stopped, tmp_path):
    checkpoint = copied(stopped, tmp_path)
    before = BatchLog(PosixStore(Path(checkpoint))).latest()
    rescale(checkpoint, 3, untold)
    after = BatchLog(PosixStore(Path(checkpoint))).latest()
    assert load_deployment(checkpoint, after.directive.deployment).buckets == 3
    assert after.memory == before.memory
    assert {**after.directive.to_plain(), "deployment": ""} == {**before.directive.to_plain(), "deployment": ""}


def test_the_state_as_it_is_has_nothing_to_be_moved(stopped, tmp_path):
    checkpoint = copied(stopped, tmp_path)
    assert rescale(checkpoint, BUCKETS, untold).state is None
    assert load_numbers(checkpoint).home.number == 0


def test_a_fresh_checkpoint_has_no_state_to_be_moved(tmp_path):
    with pytest.raises(RescaleError, match=r"holds no state yet\nhint: set spark.buckets: 3"):
        rescale(str(tmp_path), 3, untold)


def test_before_the_first_batch_only_the_number_changes(tmp_path):
    store_numbers(str(tmp_path), Numbers().in_buckets(2))
    assert rescale(str(tmp_path), 3, untold).state.committed is None
    assert load_numbers(str(tmp_path)).buckets == 3


def test_a_query_that_another_one_begins_to_read_goes_on_in_the_unfinished_batch(stopped, tmp_path):
    checkpoint = copied(stopped, tmp_path)
    settings, deployment = read_by_another(stopped, checkpoint)
    assert move_to_readers(settings, deployment) == ("hasty",)
    newest = BatchLog(PosixStore(Path(checkpoint))).latest()
    assert (newest.directive.batch, newest.directive.deployment) == (COMMITTED + 1, deployment.fingerprint)
    assert move_to_readers(settings, deployment) == (), "it is there now"
    found = goes_on(checkpoint, World(tmp_path, BATCHES, deployments=[deployment.fingerprint] * 2).batches)
    assert sum(map(len, found)) > sum(map(len, stopped.expected()[COMMITTED + 1 :])), "the reader finds something too"
    for more, less in zip(found, stopped.expected()[COMMITTED + 1 :], strict=True):
        assert sorted(set(more)) == more
        assert set(less) <= set(more)


class Killed(Exception):
    """The process ends here."""


@pytest.mark.slow
def test_whatever_ends_it_in_the_middle_the_state_is_whole_and_it_can_be_done_again(stopped, delivered, tmp_path, monkeypatch):
    expected, ends = stopped.expected()[COMMITTED + 1 :], []
    changes = {name: getattr(PosixStore, name) for name in ("write", "delete")}
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        checkpoint, left = copied(stopped, folder), [step]

        def dying(name, left=left):
            def change(store, *arguments):
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return changes[name](store, *arguments)

            return change

        with monkeypatch.context() as patched:
            for name in changes:
                patched.setattr(PosixStore, name, dying(name))
            try:
                rescale(checkpoint, 3, untold)
            except Killed:
                pass
            else:
                break
        ends.append(load_numbers(checkpoint).buckets)
        again = tmp_path / f"{step}-again"
        shutil.copytree(folder, again)
        assert goes_on(checkpoint, delivered(checkpoint)) == expected, f"killed at change {step}: goes on in {ends[-1]} buckets"
        rescale(str(again / "checkpoint"), 3, untold)
        assert goes_on(str(again / "checkpoint"), delivered(str(again / "checkpoint"))) == expected, (
            f"killed at change {step}, and done again"
        )
    assert ends == sorted(ends), "once the new state counts, it does"
    assert set(ends) == {2, 3}, "before and after the switch"
    assert ends.count(2) >= 5
    assert ends.count(3) >= 2


def test_a_state_that_cannot_be_read_is_not_moved_and_what_is_damaged_is_named(stopped, tmp_path):
    checkpoint = copied(stopped, tmp_path)
    (entry,) = (Path(checkpoint) / "state/bucket-0").glob("log-*2-*.bin")
    entry.write_bytes(entry.read_bytes()[:-9])
    with pytest.raises(SnapshotError, match="log-000000000002"):
        rescale(checkpoint, 3, untold)
    assert load_numbers(checkpoint).home.number == 0
    assert not (Path(checkpoint) / "state-1").exists()


def test_a_moved_state_is_verified_and_its_batch_can_be_left_out(stopped, tmp_path):
    checkpoint = copied(stopped, tmp_path)
    rescale(checkpoint, 3, untold)
    store, state = PosixStore(Path(checkpoint)), load_numbers(checkpoint).home.folder
    assert list(faults(store, checkpoint, state)) == []
    skip(store, COMMITTED + 1, 3, state)
    assert len(list(Path(checkpoint).glob(f"{state}/bucket-*/log-*"))) == 3
    assert list(faults(store, checkpoint, state)) == []


def command(monkeypatch, capsys, folder: Path, checkpoint: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `cep checkpoint`."""
    (folder / "settings.yaml").write_text(yaml.safe_dump({"checkpoint": {"path": checkpoint}, "spark": {"buckets": BUCKETS}}))
    monkeypatch.setattr(sys, "argv", ["cep", "checkpoint", *arguments, "--settings", str(folder / "settings.yaml")])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_command_tells_what_it_does_and_what_is_to_be_set(stopped, tmp_path, monkeypatch, capsys):
    checkpoint = copied(stopped, tmp_path)
    code, out, progress = command(monkeypatch, capsys, tmp_path, checkpoint, "rescale", "--buckets", "3")
    assert code == 0
    first, second = out.splitlines()
    assert first.startswith(f"the state as it is after batch {COMMITTED} was moved from 2 to 3 buckets: ")
    assert second == "set spark.buckets: 3 before the application starts; the settings have 2"
    assert f"bucket 0 is read as it was after batch {COMMITTED}" in progress
    assert "bucket 2 of 3 is written" in progress
    assert command(monkeypatch, capsys, tmp_path, checkpoint, "verify")[0] == 0
    code, out, _ = command(monkeypatch, capsys, tmp_path, checkpoint, "rescale", "--buckets", "2")
    assert (code, len(out.splitlines())) == (0, 1), "the settings fit again"
    assert command(monkeypatch, capsys, tmp_path, checkpoint, "rescale", "--buckets", "2")[:2] == (
        0,
        "the state is in 2 buckets already: nothing was to be done\n",
    )
    code, out, _ = command(monkeypatch, capsys, tmp_path, checkpoint, "ls")
    assert (code, "state-2" in out) == (0, True)


def test_the_command_refuses_while_the_application_runs_and_where_there_is_nothing(stopped, tmp_path, monkeypatch, capsys):
    checkpoint = copied(stopped, tmp_path)
    with sole_driver(Settings.model_validate({"checkpoint": {"path": checkpoint}})):
        code, _, error = command(monkeypatch, capsys, tmp_path, checkpoint, "rescale", "--buckets", "3")
    assert code == 75
    assert "another driver works on the checkpoint" in error
    assert load_numbers(checkpoint).buckets == 2
    assert command(monkeypatch, capsys, tmp_path, checkpoint, "rescale", "--buckets", "0")[0] == 2


@pytest.mark.parametrize("arguments", [("rescale", "--buckets", "3"), ("skip", "7"), ("verify",)], ids=lambda arguments: arguments[0])
def test_where_there_is_no_checkpoint_none_is_made(tmp_path, monkeypatch, capsys, arguments):
    nothing = tmp_path / "nothing"
    code, _, error = command(monkeypatch, capsys, tmp_path, str(nothing), *arguments)
    assert (code, f"there is no checkpoint in {nothing}" in error, nothing.exists()) == (78, True, False)
    nothing.mkdir()
    for name in ("driver.lock", "reconcile.lock"):
        (nothing / name).touch()
    assert command(monkeypatch, capsys, tmp_path, str(nothing), *arguments)[0] == 78, "a lock is no checkpoint"
