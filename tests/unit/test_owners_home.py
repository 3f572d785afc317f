"""What an owner does with its buckets: in a batch, when it is asked again, when it begins from storage, and when it was replaced without knowing."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.control.messages.totals import head_of
from app.errors import SnapshotError
from app.owners.home import Home, MissingDeliveryError
from app.owners.snapshots import read_snapshot
from app.owners.state_log import StateLog
from app.storage.store import StorageAwayError, StorageError
from tests.undated import DETECTED_AT, head, undated_row
from tests.unit.owners_world import BUCKETS, World

BATCHES = 10


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[list[str]]]:
    """A world whose checkpoint is only looked at, and what is to be found in it."""
    world = World(tmp_path_factory.mktemp("stream"), BATCHES)
    found = world.expected()
    assert sum(map(len, found)) > 50, "there is something to be found"
    assert sum(map(bool, found)) > 6, "in most batches"
    return world, found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, BATCHES)


@pytest.fixture
def expected(stream: tuple[World, list[list[str]]]) -> list[list[str]]:
    return stream[1]


@pytest.fixture
def homes(world: World) -> Iterator[list[Home]]:
    """Every home that a test opens is closed."""
    opened: list[Home] = []
    yield opened
    for home in opened:
        home.close()


def fed(report: bytes) -> dict[str, int]:
    return dict(head_of(report)["fed"])


def run(world: World, home: Home, first: int, last: int, epoch: int = 1, why: str = "start") -> list[list[str]]:
    """Composite events of the batches from ``first`` to before ``last``."""
    return [world.advance(home, batch, epoch, why=why)[1] for batch in range(first, last)]


def snapshot_now(home: Home) -> None:
    """Writes a snapshot of every bucket that the home holds, as it does when they are due."""
    for number in sorted(home.held):
        home._begin_snapshot(number)
        home._snapshots.wait()


def snapshot_files(world: World, bucket: int = 0) -> list[Path]:
    return sorted((world.checkpoint / "state" / f"bucket-{bucket}").glob("snapshot-*.bin"))


def test_composite_events_are_those_of_buckets_that_are_fed_directly(world, expected, homes):
    homes.append(world.home())
    assert run(world, homes[0], 0, BATCHES) == expected


def test_the_report_says_what_came_of_the_batch(world, expected, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 5)
    report, found = world.advance(homes[0], 5)
    head = head_of(report)
    assert (head["batch"], head["stage"], head["fed"], head["records"]) == (5, "cep", {"own": BUCKETS}, len(found))
    assert head["unpacked"] == 60
    assert head["state_bytes"] > 0


def test_asked_again_for_a_batch_it_gives_the_same_answer_and_feeds_nothing(world, expected, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 4)
    first = world.advance(homes[0], 4)
    assert homes[0].advance(world.order(4), {})[0] == first[0], "not even deliveries are needed: the attempt was answered before"
    assert world.advance(homes[0], 4) == first
    assert run(world, homes[0], 5, BATCHES) == expected[5:]


def test_asked_for_a_batch_that_is_done_under_a_new_epoch_it_does_it_again(world, expected, homes):
    """Its entry must carry the epoch: those of before count no more once somebody writes a later one."""
    homes.append(world.home())
    run(world, homes[0], 0, 4)
    report, found = world.advance(homes[0], 3, 2, why="lost")
    assert found == expected[3]
    assert fed(report) == {"lost": 3 * BUCKETS, "own": BUCKETS}
    assert homes[0].log_of(0).listing().entries == {0: 1, 1: 1, 2: 1, 3: 2}


def test_a_new_epoch_begins_from_the_log_and_says_how_much_it_fed(world, expected, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 6)
    report, found = world.advance(homes[0], 6, 2, why="moved")
    assert found == expected[6]
    assert fed(report) == {"moved": 6 * BUCKETS, "own": BUCKETS}
    homes.append(world.home())
    report, found = world.advance(homes[1], 7, 3, why="lost")
    assert found == expected[7]
    assert fed(report) == {"lost": 7 * BUCKETS, "own": BUCKETS}


def test_a_batch_that_an_owner_had_done_already_is_done_again_by_the_next_one(world, expected, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 5)
    homes.append(world.home())
    assert run(world, homes[1], 4, BATCHES, epoch=2, why="lost") == expected[4:]


def test_after_a_snapshot_only_what_follows_it_is_fed(world, expected, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 4)
    snapshot_now(homes[0])
    run(world, homes[0], 4, 6)
    homes.append(world.home())
    report, found = world.advance(homes[1], 6, 2, why="lost")
    assert fed(report) == {"lost": 2 * BUCKETS, "own": BUCKETS}
    assert [found, *run(world, homes[1], 7, BATCHES, epoch=2)] == expected[6:]


def test_the_entries_that_a_snapshot_made_superfluous_are_no_longer_counted(world, homes):
    homes.append(home := world.home())
    run(world, home, 0, 4)
    snapshot_now(home)
    run(world, home, 4, 6)
    home.tend(3)
    assert [held.entries for held in home.held.values()] == [2, 2]
    assert all(held.entry_bytes > 0 and held.snapshot_batch == 3 for held in home.held.values())


def test_a_snapshot_is_not_taken_off_twice_from_a_bucket_that_was_rebuilt_on_it(world, homes):
    """The bucket fails after its snapshot is safe and before the owner looks: it is rebuilt from that snapshot."""
    homes.append(home := world.home())
    run(world, home, 0, 4)
    snapshot_now(home)
    home.held.clear()
    run(world, home, 4, 6)
    home.tend(3)
    assert [held.entries for held in home.held.values()] == [2, 2]
    assert all(held.known[0] != held.known[1] for held in home.held.values()), "two neighbours must have no file in common"


def test_a_torn_newest_snapshot_is_passed_over(world, expected, homes):
    homes.append(world.home())
    for batch in range(6):
        run(world, homes[0], batch, batch + 1)
        if batch in (1, 4):
            snapshot_now(homes[0])
    torn = snapshot_files(world)[-1]
    torn.write_bytes(torn.read_bytes()[:-7])
    homes.append(world.home())
    report, found = world.advance(homes[1], 6, 2, why="lost")
    assert fed(report) == {"lost": 4 + 1, "own": BUCKETS}, "one bucket from batch 1 on, the other one from batch 4"
    assert head_of(report)["damaged"] == 1, "it is counted"
    assert head_of(world.advance(homes[1], 7, 2)[0])["damaged"] == 0, "once"
    assert [found, *run(world, homes[1], 7, BATCHES, epoch=2)] == expected[6:]


def test_storage_that_is_away_is_not_taken_for_a_damaged_snapshot(world, homes, monkeypatch):
    homes.append(world.home())
    run(world, homes[0], 0, 2)
    snapshot_now(homes[0])

    read = Path.open

    def away(path, *arguments, **named):
        if "snapshot-" in path.name:
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(path, *arguments, **named)

    homes.append(world.home())
    monkeypatch.setattr(Path, "open", away)
    with pytest.raises(StorageAwayError, match=r"cannot read state/bucket-.*snapshot-"):
        world.advance(homes[1], 2, 2, why="lost")


def test_without_a_snapshot_that_can_be_read_the_error_names_the_files(world, homes):
    homes.append(world.home())
    for batch in range(6):
        run(world, homes[0], batch, batch + 1)
        if batch in (1, 4):
            snapshot_now(homes[0])
    homes[0].log_of(0).prune(committed=100, keep_batches=1)
    for damaged in snapshot_files(world):
        damaged.write_bytes(damaged.read_bytes()[:-7])
    homes.append(world.home())
    with pytest.raises(SnapshotError) as told:
        world.advance(homes[1], 6, 2)
    assert all(file.name in str(told.value) for file in snapshot_files(world))
    assert "hint:" in str(told.value)


def test_damaged_snapshots_do_no_harm_while_the_log_reaches_back_to_the_beginning(world, expected, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 4)
    snapshot_now(homes[0])
    for damaged in snapshot_files(world):
        damaged.write_bytes(b"")
    homes.append(world.home())
    assert run(world, homes[1], 4, BATCHES, epoch=2) == expected[4:]


@pytest.mark.parametrize("gone", [0, 1, 3])
def test_a_hole_in_the_log_is_told_and_not_matched_over(world, homes, gone):
    homes.append(world.home())
    run(world, homes[0], 0, 5)
    (entry,) = (world.checkpoint / "state" / "bucket-1").glob(f"log-{gone:012}-*.bin")
    entry.unlink()
    homes.append(world.home())
    with pytest.raises(SnapshotError, match=r"bucket-1|bucket 1"):
        world.advance(homes[1], 5, 2)


def test_a_log_that_is_gone_as_a_whole_is_told(world, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 1)
    for entry in (world.checkpoint / "state" / "bucket-1").glob("log-*"):
        entry.unlink()
    homes.append(world.home())
    with pytest.raises(SnapshotError, match="no state before batch 1"):
        world.advance(homes[1], 1, 2)


def test_a_torn_entry_is_named(world, homes):
    homes.append(world.home())
    run(world, homes[0], 0, 5)
    entry = world.checkpoint / "state" / "bucket-0" / "log-000000000003-1.bin"
    entry.write_bytes(entry.read_bytes()[:-3])
    homes.append(world.home())
    with pytest.raises(SnapshotError, match="log-000000000003-1"):
        world.advance(homes[1], 5, 2)


def test_a_delivery_that_is_missing_is_told_and_nothing_is_lost(world, expected, homes):
    homes.append(home := world.home())
    run(world, home, 0, 4)
    some = {0: world.batches[4].deliveries[0]}
    with pytest.raises(MissingDeliveryError, match=r"batch 4, attempt 1: nothing came from the tasks \[1\]"):
        home.advance(world.order(4), some)
    assert not list((world.checkpoint / "state").rglob("log-000000000004-*")), "nothing was logged of half a batch"
    assert run(world, home, 4, BATCHES) == expected[4:]


def test_a_batch_that_fails_on_the_way_is_done_again_from_storage(world, expected, homes):
    """Bucket 0 is fed, bucket 1 gets bytes that are no chunk: both begin from the batch before."""
    homes.append(home := world.home())
    run(world, home, 0, 4)
    damaged = {task: {**of, 1: [b"Cnonsense"]} for task, of in world.batches[4].deliveries.items()}
    with pytest.raises(Exception) as told:  # whatever a damaged chunk raises
        home.advance(world.order(4), damaged)
    assert told.value.__notes__ == ["bucket 1, batch 4"]
    report, found = world.advance(home, 4)
    assert found == expected[4]
    assert fed(report)["own"] == BUCKETS
    assert run(world, home, 5, BATCHES) == expected[5:]


def test_a_batch_that_failed_writes_nothing_any_more_when_it_is_told(world, homes, monkeypatch):
    """The next attempt writes under the same names: an upload that fails late takes its file away."""
    homes.append(home := world.home())
    run(world, home, 0, 4)
    written, append = [], StateLog.append

    def slowly(*arguments):
        time.sleep(0.5)
        written.append(append(*arguments))
        return written[-1]

    monkeypatch.setattr(StateLog, "append", slowly)
    damaged = {task: {**of, 1: [b"Cnonsense"]} for task, of in world.batches[4].deliveries.items()}
    with pytest.raises(Exception):  # noqa: B017 - whatever a damaged chunk raises
        home.advance(world.order(4), damaged)
    assert len(written) == 1, "bucket 0 was fed"


def test_buckets_that_are_no_longer_asked_for_are_let_go(world, expected, homes):
    homes.append(home := world.home())
    run(world, home, 0, 3)
    _, of_one = world.advance(home, 3, buckets=[1])
    assert set(home.held) == {1}
    homes.append(world.home())
    _, of_other = world.advance(homes[1], 3, 2, buckets=[0], why="moved")
    assert sorted([*of_one, *of_other]) == expected[3]


def test_what_a_replaced_owner_goes_on_to_write_is_never_read(world, expected, homes):
    """The old owner hung; meanwhile a new one has its buckets. Then it writes entries (of other contents, even) and snapshots."""
    homes += [world.home(), world.home()]
    old, new = homes
    run(world, old, 0, 5)
    assert run(world, new, 5, 7, epoch=2, why="lost") == expected[5:7]
    nothing = {task: {} for task in range(2)}
    for batch in (5, 6):
        old.advance(world.order(batch, 1), nothing)  # as if its deliveries had got lost
    snapshot_now(old)
    listing = new.log_of(0).listing()
    assert (listing.entries[5], listing.entries[6]) == (2, 2)
    assert listing.generations == ()
    assert len(listing.dead) == 3
    homes.append(world.home())
    assert run(world, homes[2], 7, BATCHES, epoch=3, why="lost") == expected[7:]


def test_a_snapshot_of_a_replaced_owner_that_comes_last_of_all_is_deleted(world, expected, homes):
    homes += [world.home(), world.home()]
    old, new = homes
    run(world, old, 0, 5)
    run(world, new, 4, 6, epoch=2, why="lost")
    snapshot_now(new)
    snapshot_now(old)
    assert [one.epoch for one in new.log_of(0).listing().generations] == [2]
    for _ in range(3):  # one bucket's files after the other's
        new.tend(4)
    assert not list((world.checkpoint / "state").rglob("*-000000000004-1.bin"))
    homes.append(world.home())
    assert run(world, homes[2], 6, BATCHES, epoch=3) == expected[6:]


def test_a_changed_query_keeps_nothing_and_a_rebuilt_bucket_agrees(tmp_path, homes):
    """The log tells under which deployment each batch was fed."""
    world = World(tmp_path, BATCHES, changed_at=4)
    expected = world.expected()
    assert any(expected[4:])
    homes.append(world.home())
    assert run(world, homes[0], 0, 3) == expected[:3]
    snapshot_now(homes[0])
    assert run(world, homes[0], 3, 7) == expected[3:7]
    homes.append(world.home())
    assert run(world, homes[1], 7, BATCHES, epoch=2) == expected[7:]


def test_a_snapshot_is_written_beside_the_batches_and_holds_the_moment_it_began(world, homes):
    homes.append(home := world.home())
    run(world, home, 0, 3)
    before = {name: b"".join(map(bytes, buffers)) for name, buffers in home.held[0].bucket.snapshot_parts()}
    home._begin_snapshot(0)
    run(world, home, 3, 6)
    home._snapshots.wait()
    state = home.log_of(0)
    (generation,) = state.listing().generations
    assert (generation.batch, generation.epoch) == (2, 1)
    assert {name: bytes(part) for name, part in read_snapshot(state, generation).parts.items()} == before
    assert not list((world.checkpoint / ".drafts").glob("snapshot-*"))


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30))
def test_whatever_dies_and_when_the_composite_events_are_those_of_an_undisturbed_run(tmp_path_factory, expected, seed):
    """Owners are killed, replaced while they hang, lose deliveries; snapshots come at any time, the newest may be torn, old ones are pruned."""
    world, chance = World(tmp_path_factory.mktemp("killed"), BATCHES), random.Random(seed)
    homes, epochs = [world.home(), world.home()], [1] * BUCKETS
    at = [0] * BUCKETS  # which of the homes has the bucket
    torn: dict[int, int] = {}  # when the newest snapshot of a bucket was torn: once, at the end of its owner
    found: list[list[str]] = []
    for batch in range(BATCHES):
        for bucket in range(BUCKETS):
            if chance.random() < 0.3 or torn.get(bucket) == batch - 1:
                at[bucket], epochs[bucket] = 1 - at[bucket], max(epochs) + 1
            if chance.random() < 0.15:
                homes[at[bucket]] = world.home()  # the process is gone, and so is all that it held
                epochs = [max(epochs) + 1 + k if at[k] == at[bucket] else epochs[k] for k in range(BUCKETS)]
        ids: list[str] = []
        for bucket in range(BUCKETS):
            home, order = homes[at[bucket]], world.order(batch, epochs[bucket], buckets=[bucket], why="lost")
            if chance.random() < 0.2:
                with pytest.raises(MissingDeliveryError):
                    home.advance(order, {})
            for _ in range(chance.choice([1, 1, 2])):
                _, once = world.advance(home, batch, epochs[bucket], buckets=[bucket], why="lost")
            ids += once
            if chance.random() < 0.3:
                snapshot_now(home)
            if chance.random() < 0.5:
                home.log_of(bucket).prune(committed=batch - 1, keep_batches=1)
            if chance.random() < 0.2 and bucket not in torn and len(files := snapshot_files(world, bucket)) > 1:
                files[-1].write_bytes(files[-1].read_bytes()[: chance.randrange(50)])
                torn[bucket] = batch
        found.append(sorted(ids))
    for home in homes:
        home.close()
    assert found == expected


def test_a_composite_event_says_when_it_was_built_and_again_nothing_else_differs(world: World, homes: list[Home]) -> None:
    written: list[list[dict]] = []
    for _ in range(2):  # a driver that was killed before the batch was committed
        homes.append(world.home())
        before = time.time()
        returned = [homes[-1].advance(world.order(batch), world.batches[batch].deliveries)[1] for batch in range(3)]
        rows = [row for stream in chain.from_iterable(returned) for row in pa.ipc.open_stream(stream).read_all().to_pylist()]
        heads = [head(row["value"])[0] for row in rows if row["topic"] == "cep.hasty"]
        assert heads
        assert all(int(1000 * before) / 1000 <= one[DETECTED_AT].timestamp() <= time.time() for one in heads)
        written.append(rows)
    first, again = (sorted(map(undated_row, rows)) for rows in written)
    assert first == again


def test_files_that_cannot_be_deleted_keep_no_snapshot_back(world, homes, monkeypatch):
    homes.append(world.home())
    run(world, homes[0], 0, 3)
    snapshot_now(homes[0])
    refused = []

    def refuses(*_: object, **__: object) -> None:
        refused.append(1)
        raise StorageError("cannot delete")

    monkeypatch.setattr(StateLog, "prune", refuses)
    monkeypatch.setattr(StateLog, "prune_more", refuses)
    monkeypatch.setattr(Home, "_is_due", lambda *_: True)
    begun = []
    monkeypatch.setattr(Home, "_begin_snapshot", lambda _, number: begun.append(number))
    homes[0].tend(2)
    assert len(refused) == BUCKETS + 1
    assert len(begun) == 1
