"""A batch that waits for owners hears that the application is to stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.control.messages.directives import Directive
from app.errors import DependencyError
from app.owners.orders import OwnerSettings
from app.owners.wire import WireKey
from app.pipeline import batches as batches_module
from app.pipeline import looking
from app.pipeline.batches import Batches, BatchRules, StoppedError, UndoneError
from app.pipeline.warming import find_owners

FRAME: Any = SimpleNamespace(sparkSession=None)


class SparkOf:
    """A session that knows its master and has no executor."""

    def __init__(self, master: str) -> None:
        self.sparkContext = SimpleNamespace(master=master, getConf=dict)


class Plane:
    """Decides about batches that never come to anything."""

    def begin_run(self) -> int:
        return 1

    def directive(self, batch: int) -> Directive:
        return Directive(batch)

    def count_owners(self, owners: int) -> None:
        pass


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set when Spark holds back the job that looks for executors, since there is none."""
    held_back, over = threading.Event(), threading.Event()

    def look_around(*_: object) -> set[tuple[str, int]]:
        held_back.set()
        over.wait(60)
        return set()

    monkeypatch.setattr(looking, "look_around", look_around)
    yield held_back
    over.set()


def made(folder: Path) -> Batches:
    plane: Any = Plane()
    return Batches(plane, BatchRules(1), OwnerSettings("test", str(folder), "state"), WireKey(b"of the application"))


def test_a_batch_that_waits_for_owners_ends_when_the_application_is_to_stop(waiting: threading.Event, tmp_path: Path) -> None:
    batches, raised = made(tmp_path), list[BaseException]()

    def work_off() -> None:
        try:
            batches(FRAME, 1)
        except StoppedError as error:
            raised.append(error)

    with capture_logs() as printed:
        thread = threading.Thread(target=work_off)
        thread.start()
        assert waiting.wait(60)
        assert batches.running is not None
        batches.stop()
        thread.join(batches_module.WAIT_FOR_OWNERS_S / 2)
    assert not thread.is_alive()
    assert len(raised) == 1
    assert isinstance(batches.failure, StoppedError), "no fault of anybody's"
    assert batches.running is None
    assert [one for one in printed if one["log_level"] == "error"] == []
    batches.close()


def test_a_start_that_waits_for_the_first_executor_ends_when_the_application_is_to_stop(waiting: threading.Event, tmp_path: Path) -> None:
    batches, stop, spark = made(tmp_path), threading.Event(), SparkOf("k8s://cluster")
    thread = threading.Thread(target=find_owners, args=(spark, batches, 2, stop))
    thread.start()
    assert waiting.wait(60)
    assert thread.is_alive()
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    batches.close()


def test_where_no_executor_comes_it_is_said_when_the_time_is_over(
    waiting: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches_module, "WAIT_FOR_OWNERS_S", 0.2)
    batches = made(tmp_path)
    with pytest.raises(UndoneError):
        batches(FRAME, 1)
    assert waiting.is_set()
    assert isinstance(batches.failure, DependencyError)
    assert "no executor has come" in str(batches.failure)
    batches.close()
