"""An owner's answers to orders that it cannot do: words for people, the stack for whoever looks for a defect."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from app.owners.server import Owner
from app.owners.wire import Message
from tests.unit.owners_world import World


def test_a_damaged_file_is_told_by_name_and_printed_without_a_stack(tmp_path: Path) -> None:
    world, owner = World(tmp_path, batches=1, events=20), Owner()
    (file,) = (world.checkpoint / "deployments").glob(f"{world.deployments[1]}*")
    file.write_bytes(file.read_bytes()[:-1])
    owner.answer(Message({"op": "open", "settings": world.settings.to_plain()}))
    with capture_logs() as printed:
        told, _ = owner.answer(Message({"op": "prepare", "application": "test", "deployment": world.deployments[1]}))
    assert (told["kind"], file.name in told["error"]) == ("TornError", True)
    assert "Traceback" not in told["error"]
    assert "Traceback (most recent call last)" in told["stack"], "for the driver's log at debug"
    assert [(one["log_level"], one["reason"]) for one in printed] == [("error", told["error"])]


def test_a_defect_is_printed_with_its_stack() -> None:
    with capture_logs() as printed:
        told, _ = Owner().answer(Message({"op": "no such order"}))
    assert told["kind"] == "KeyError"
    assert "server.py" in printed[0]["reason"]
