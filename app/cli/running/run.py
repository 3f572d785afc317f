"""``cep run``: the application, until it is told to stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import typer

from app import __version__
from app.bootstrap.class_archive import make_class_archive
from app.cli.settings_file import SettingsFile
from app.config.secret_variables import without_secrets
from app.config.settings import load_settings
from app.errors import CepError, CheckpointTakenError, ConfigurationError, DependencyError
from app.observe.logs import configure_logging
from app.pipeline.batches import AccountsError, BatchFailedError
from app.pipeline.driver import QueryFailedError, Stop
from app.pipeline.driver import run as run_application
from app.pipeline.preparation import TopicsMissingError

EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (ConfigurationError, os.EX_CONFIG),
    (TopicsMissingError, os.EX_CONFIG),
    (DependencyError, os.EX_UNAVAILABLE),
    (CheckpointTakenError, os.EX_TEMPFAIL),
    (BatchFailedError, os.EX_DATAERR),
    (AccountsError, os.EX_SOFTWARE),
    (QueryFailedError, 1),
    (CepError, 1),
)
"""What tells an orchestrator whether to try again: 78 no, 69 later, 75 when the other driver is gone; 65 and 70 want a person."""

CLEAN_UP_SECONDS = 30.0
"""A failed query's process ends by then, whatever hangs: an orchestrator starts nothing in the place of a process that stays."""

ARCHIVE_AFTER_SECONDS = 60.0
"""By then the stream runs, and its start has had the processors for itself."""
_LONGEST_END_S = 5.0


def run(
    settings: SettingsFile = None,
) -> None:
    """Run the application until SIGTERM or Ctrl-C (a second one stops at once).

    Exit codes: 0 stopped as asked, 78 wrong configuration (all findings on standard error), 69 broker, registry or the checkpoint's storage missing,
    75 another driver holds the checkpoint, 65 a batch failed as often as it may, 70 the accounts of a batch do not close, 1 the query failed.
    """
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.request())
    try:
        loaded = load_settings(settings, os.environ)
        configure_logging(loaded.logging, loaded.application, __version__)
        with without_secrets(os.environ):
            environment = dict(os.environ)
        archiving = threading.Thread(target=_archive_classes, args=(stop, environment), name="classes", daemon=True)
        archiving.start()
        threading.Thread(target=_end_in_any_case, args=(stop,), name="end", daemon=True).start()
        try:
            run_application(loaded, stop, settings)
        finally:
            stop.asked.set()  # however it ended
            archiving.join(_LONGEST_END_S)
    except tuple(kind for kind, _ in EXIT_CODES) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(exit_code(error)) from error


def exit_code(error: BaseException | None) -> int:
    """What the process ends with because of a failure."""
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1)


def _archive_classes(stop: Stop, environment: dict[str, str]) -> None:
    """For the next start: this one would wait three quarters of a minute for it, and save ten seconds."""
    if not stop.asked.wait(ARCHIVE_AFTER_SECONDS):
        make_class_archive(lambda: stop.asked.is_set() or stop.failed.is_set(), beside=environment)


def _end_in_any_case(stop: Stop) -> None:
    stop.failed.wait()
    time.sleep(CLEAN_UP_SECONDS)
    why = stop.failure or "the streaming query failed"
    print(f"{why}\nwhat remained did not end within {CLEAN_UP_SECONDS:.0f} s; ending without it", file=sys.stderr)
    sys.stderr.flush()
    os._exit(exit_code(stop.failure))
