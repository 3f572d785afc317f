from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from app.config.settings import Logging
from app.errors import SnapshotError
from app.observe.logs import bound, configure_logging, get_logger, log_failure, set_level


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging(Logging(levels={"noisy": "ERROR"}), "cep", "0.1.0", stream)
    yield stream
    root.handlers[:], root.level = before
    logging.captureWarnings(capture=False)


def fail(text: str) -> None:
    raise RuntimeError(text)


def parsed(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_every_line_is_an_object_with_the_agreed_keys(lines: io.StringIO) -> None:
    with bound(query="shoplifting", batch_id=7):
        get_logger("app.control").info("batch finished", events=10)
    (line,) = parsed(lines)
    assert {k: line[k] for k in ("level", "event", "logger", "service.name", "service.version", "query", "batch_id", "events")} == {
        "level": "info",
        "event": "batch finished",
        "logger": "app.control",
        "service.name": "cep",
        "service.version": "0.1.0",
        "query": "shoplifting",
        "batch_id": 7,
        "events": 10,
    }
    assert str(line["timestamp"]).endswith("Z")


def test_standard_library_and_warnings_go_the_same_way(lines: io.StringIO) -> None:
    logging.getLogger("py4j").warning("gateway %s", "gone")
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second = parsed(lines)
    assert first["event"] == "gateway gone"
    assert first["service.name"] == "cep"
    assert "old" in str(second["event"])


def test_errors_are_one_line_with_type_and_stack(lines: io.StringIO) -> None:
    try:
        fail("boom")
    except RuntimeError:
        get_logger("app").exception("failed")
    (line,) = parsed(lines)
    assert line["error.type"] == "RuntimeError"
    assert "boom" in str(line["error.stack"])


def test_secrets_never_appear(lines: io.StringIO) -> None:
    log = get_logger("app")
    log.info("connect", password="hunter2", options={"sasl.jaas.config": "hunter2", "url": "http://user:hunter2@host/x"}, token=None)
    log.info('org.apache.ScramLoginModule required username="u" password="hunter2";')
    log.info("Authorization: Bearer hunter2.abc")
    logging.getLogger("py4j").warning("conf %s", "kafka.ssl.key.password=hunter2,x=1")
    try:
        fail("secret" + "=hunter2")
    except RuntimeError:
        log.exception("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----")
    assert len(parsed(lines)) == 5
    assert "hunter2" not in lines.getvalue().replace('\\"=hunter2\\"', "")  # the source line in the stack


def test_levels_per_logger_change_at_run_time(lines: io.StringIO) -> None:
    get_logger("noisy").warning("hidden")
    get_logger("app").debug("hidden")
    set_level("noisy", "DEBUG")
    get_logger("noisy").debug("shown")
    assert [line["event"] for line in parsed(lines)] == ["shown"]


def test_console_format_is_for_eyes() -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    try:
        configure_logging(Logging(format="console"), "cep", "1", stream)
        get_logger("app").info("hello", batch_id=3)
    finally:
        root.handlers[:], root.level = before
        logging.captureWarnings(capture=False)
    assert "hello" in stream.getvalue()
    assert "{" not in stream.getvalue()


def caught(error: Exception) -> Exception:
    try:
        raise error
    except type(error) as raised:
        return raised


def test_what_people_can_mend_is_told_in_its_words_and_its_stack_at_debug(lines: io.StringIO) -> None:
    log, damaged = get_logger("app.pipeline"), caught(SnapshotError("log-7.bin is torn\nhint: cep checkpoint verify"))
    log_failure(log, "batch failed", damaged, batch_id=7)
    (line,) = parsed(lines)
    assert (line["level"], line["reason"], line["batch_id"]) == ("error", "log-7.bin is torn\nhint: cep checkpoint verify", 7)
    assert "error.stack" not in line
    set_level("app.pipeline", "debug")
    log_failure(log, "batch failed", damaged)
    set_level("app.pipeline", "info")
    assert "SnapshotError" in str(parsed(lines)[-1]["error.stack"])


def test_a_defect_is_told_with_its_stack(lines: io.StringIO) -> None:
    log_failure(get_logger("app.pipeline"), "batch failed", caught(RuntimeError("no such thing")))
    (line,) = parsed(lines)
    assert "no such thing" in str(line["error.stack"])
