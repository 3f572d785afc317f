"""What owners write into the log of their executor."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import structlog

from app.config.settings import Logging
from app.owners.server import Owner
from app.owners.wire import Message
from tests.unit.owners_world import World


def test_an_owner_logs_as_the_application_does_and_says_of_which_batch_it_speaks(tmp_path: Path, capsys) -> None:
    world, owner = World(tmp_path, batches=1, events=20), Owner()
    before = logging.getLogger().handlers[:], logging.getLogger().level
    settings = replace(world.settings, name="shop", logging=Logging().model_dump())
    try:
        owner.answer(Message({"op": "open", "settings": json.loads(json.dumps(settings.to_plain()))}))
        owner.answer(Message({"op": "advance", "application": "test", "batch": 7}))
        (line,) = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers, logging.getLogger().level = before
        logging.captureWarnings(capture=False)
    assert (line["event"], line["op"], line["batch_id"], line["service.name"], line["level"]) == (
        "an order failed",
        "advance",
        7,
        "shop",
        "error",
    )
