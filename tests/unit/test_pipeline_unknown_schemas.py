"""What the registry did not know in one attempt of a batch stays unknown in the next: owners may have done their part of the first."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.control.messages.directives import Directive
from app.control.messages.reports import StageReport
from app.control.messages.totals import pack_report
from app.events.avro import StreamDefinition, parse_schema
from app.events.decoder import BatchDecoder
from app.events.failures import Reason
from app.owners import server
from app.owners.orders import OwnerSettings, TaskOrders
from app.owners.server import serve
from app.owners.wire import WireKey
from app.pipeline.batches import Batches, BatchRules, UndoneError
from app.pipeline.task_answers import TaskAnswer

KEY = WireKey(b"of the application")
QUOTE = parse_schema(
    '{"type": "record", "name": "Quote", "fields": [{"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}'
)


class Learning:
    """A registry that gets to know a schema while a batch is repeated."""

    def __init__(self) -> None:
        self.known: dict[int | str, Any] = {}

    def schema(self, key: int | str) -> Any:
        return self.known.get(key)


def decoded(decoder: BatchDecoder, schema_id: int) -> tuple[int, dict[Reason, int]]:
    """Of one record: events, and dead letters by reason."""
    value = b"\0" + schema_id.to_bytes(4, "big") + b"\x02"
    found = decoder.decode(pa.array([value], pa.binary()), np.zeros(1, np.int64), np.zeros(1, np.int64))
    return len(found.batch), found.failures.counts()


def test_a_schema_that_was_unknown_stays_so_also_for_who_has_decoded_its_records_in_another_task() -> None:
    registry = Learning()
    decoder = BatchDecoder(StreamDefinition("stocks", time_attribute="time"), [QUOTE], registry)
    of_this_task: set[int | str] = set()
    decoder.unknown = of_this_task
    assert decoded(decoder, 7) == (0, {Reason.UNKNOWN_SCHEMA_ID: 1})
    assert of_this_task == {7}
    registry.known[7] = QUOTE
    assert decoded(decoder, 7) == (0, {Reason.UNKNOWN_SCHEMA_ID: 1}), "later in the task"
    decoder.unknown = set()
    assert decoded(decoder, 7) == (1, {}), "in another task"
    decoder.unknown = {7}
    assert decoded(decoder, 7) == (0, {Reason.UNKNOWN_SCHEMA_ID: 1}), "in the same one, repeated"


class Plane:
    """Decides nothing."""

    def begin_run(self) -> int:
        return 1

    def directive(self, batch: int) -> Directive:
        return Directive(batch)

    def await_directive(self) -> None:
        pass

    def count_owners(self, owners: int) -> None:
        pass

    def count_failed_attempt(self) -> None:
        pass


def test_tasks_of_a_repeated_attempt_are_told_what_each_of_them_did_not_find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(server.gc, "disable", lambda: None)
    monkeypatch.setattr(server.gc, "freeze", lambda: None)
    told: list[dict[int, list[int | str]]] = []
    properties: dict[str, str] = {}
    context = SimpleNamespace(setLocalProperty=properties.__setitem__)
    frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, KEY), daemon=True).start()
        address = listener.getsockname()

        def answers(_: object) -> list[TaskAnswer]:
            """No attempt succeeds: a task cannot reach the owner."""
            (text,) = properties.values()
            told.append({part: list(keys) for part, keys in TaskOrders.from_text(text).unknown.items()})
            unreached = (f"{address[0]}:{address[1]}",)
            found: dict[int, tuple[int | str, ...]] = {0: (7, "a guid"), 1: ()}
            reports = [StageReport(1, "ingress", part, undelivered=unreached, unknown=keys) for part, keys in found.items()]
            return [TaskAnswer(pack_report(report, []), frozenset()) for report in reports]

        plane: Any = Plane()
        settings = OwnerSettings("test", str(tmp_path), "state")
        batches = Batches(plane, BatchRules(1, attempts=2), settings, KEY, answers=answers)
        batches.find([address])
        for batch in (1, 2):
            with pytest.raises(UndoneError):
                batches(frame, batch)
        assert told == [{}, {0: [7, "a guid"]}, {}, {0: [7, "a guid"]}]
        batches.close()
