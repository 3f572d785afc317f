"""Logs: structlog and the standard library's loggers through one pipe, one JSON object per line, without secrets.

Keys: ``timestamp level event logger service.name service.version query query_version batch_id run_id error.type error.stack`` and what the caller adds.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TextIO

import structlog

from app.config.settings import Logging
from app.errors import CepError

HIDDEN = "***"
_SECRET_KEY = re.compile(r"password|passwd|secret|token|jaas|authorization|credential|api[_.-]?key|private[_.-]?key", re.IGNORECASE)
_SECRET_TEXT = (
    # user:password@ in URLs; Bearer and Basic headers; password=… and "password": "…" in options, JAAS lines and JSON; PEM keys
    (re.compile(r"(://[^/\s:@]+:)[^@\s/]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]+", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (
        re.compile(r"""((?:password|passwd|secret|token|api[_.-]?key)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;&}"']+)""", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), HIDDEN),
)

Event = MutableMapping[str, Any]
CHATTY = ("httpx", "httpx2", "httpcore", "py4j")
"""Libraries that report every request at INFO."""
TOLD_BEFORE = "py4j.clientserver"
"""Tells what was raised in a call from the JVM, with its stack: all of ours tell it themselves."""


def configure_logging(settings: Logging, service: str, version: str, stream: TextIO | None = None) -> None:
    """Sets up all logging of the process; may be called again (levels changed, another stream).

    Args:
        settings: level, levels of single loggers, format.
        service: ``service.name``.
        version: ``service.version``.
        stream: standard output by default.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _identity(service, version),
        _errors,
        redact,
    ]
    last: Any = structlog.processors.JSONRenderer(default=str) if settings.format == "json" else structlog.dev.ConsoleRenderer(colors=False)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last]
    )
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level)
    logging.captureWarnings(capture=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel("WARNING")
    logging.getLogger(TOLD_BEFORE).setLevel("CRITICAL")
    for name, level in settings.levels.items():
        logging.getLogger(name).setLevel(level)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module: ``get_logger(__name__).info("batch finished", batch_id=7)``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def log_failure(log: structlog.stdlib.BoundLogger, event: str, error: BaseException, **values: object) -> None:
    """An error: one that people can mend in its own words (file, hint), with its traceback at debug; any other is a defect, and told with it."""
    if isinstance(error, CepError):
        log.error(event, reason=str(error), **values)
        log.debug(event, exc_info=error, **values)
    else:
        log.error(event, exc_info=error, **values)


LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
"""Those that settings know as well."""


def set_level(name: str, level: str) -> None:
    """Changes a logger's level at run time; the empty name is everybody's.

    Raises:
        ValueError: there is no such level.
    """
    if level.upper() not in LEVELS:
        raise ValueError(f"no level {level!r}; levels are {', '.join(LEVELS)}")
    logging.getLogger(name or None).setLevel(level.upper())


def levels() -> dict[str, str]:
    """The levels of all loggers that have one of their own; the empty name is everybody's."""
    root = logging.getLogger()
    own = {name: one for name, one in root.manager.loggerDict.items() if isinstance(one, logging.Logger) and one.level}
    return {"": logging.getLevelName(root.level), **{name: logging.getLevelName(one.level) for name, one in sorted(own.items())}}


@contextmanager
def bound(**values: object) -> Iterator[None]:
    """Adds keys (query, batch_id, run_id …) to every line logged inside."""
    with structlog.contextvars.bound_contextvars(**values):
        yield


def redact(logger: object, method: str, event: Event) -> Event:
    """Hides secrets: values of keys that speak of them, and whatever looks like one inside texts."""
    return {key: HIDDEN if _SECRET_KEY.search(key) and value is not None else _cleaned(value) for key, value in event.items()}


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, replacement in _SECRET_TEXT:
            value = pattern.sub(replacement, value)
        return value
    if isinstance(value, Mapping):
        return {key: HIDDEN if _SECRET_KEY.search(str(key)) else _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner) for inner in value]
    return value


def _identity(service: str, version: str) -> Any:
    def add(logger: object, method: str, event: Event) -> Event:
        event["service.name"], event["service.version"] = service, version
        return event

    return add


def _errors(logger: object, method: str, event: Event) -> Event:
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else None
    if error is not None:
        event["error.type"] = type(error).__qualname__
        event["error.stack"] = "".join(traceback.format_exception(error))
    return event
