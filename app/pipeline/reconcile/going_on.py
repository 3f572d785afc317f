"""Where the last reconciliation ended, so that the next one begins there: a job that runs every hour leaves no gap, whatever kept it or the application."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pyspark.sql import SparkSession

from app.config.settings import Settings
from app.errors import SnapshotError
from app.pipeline.reconcile.aims import Request
from app.pipeline.reconcile.failure import DeletedError, NothingShedsError, moment
from app.pipeline.reconcile.outcome import Outcome
from app.pipeline.reconcile.reconcile import Telling, reconcile
from app.pipeline.reconcile.scope import Interval
from app.storage.frames import read_frame, write_frame
from app.storage.open import open_store
from app.storage.store import MissingError

FILE, KIND, FORMAT = "reconciled.bin", "reconciled", 1
MOST = 4
"""Times as long as what was asked for: who has fallen behind catches up in several runs, each of which has an end."""


def go_on(settings: Settings, request: Request, session: Callable[[], SparkSession], telling: Telling) -> Outcome:
    """A reconciliation that begins where the last of these ended, if that is earlier than what is asked for, and remembers in the checkpoint where it ends itself.

    What retention has deleted meanwhile is passed over, and told.

    Args:
        settings: of the application.
        request: what is asked for; a dry one remembers nothing.
        session: starts Spark, at most once.
        telling: is told of progress.

    Raises:
        CepError: see `app.pipeline.reconcile.reconcile.reconcile`.
    """
    asked, started = request.shed, cache(session)
    shed = interval_after(asked, ended(settings.checkpoint.uri))
    while True:
        try:
            outcome = reconcile(settings, replace(request, shed=shed), started, telling)
        except DeletedError as error:
            if shed.begin >= asked.begin:
                raise
            later = asked.begin if error.possible_ms is None or error.possible_ms <= shed.begin else min(asked.begin, error.possible_ms)
            telling.begins(f"passing over {moment(shed.begin)} to {moment(later)}, since records of it are deleted", 0)
            shed = interval_after(asked, later)
        except NothingShedsError:
            _note(settings, request, shed.end)
            raise
        else:
            _note(settings, request, min(shed.end, outcome.come))
            return outcome


def interval_after(asked: Interval, end: int | None) -> Interval:
    """What is to be compared where it was compared up to some time before.

    Args:
        asked: event times.
        end: up to where; None: never.

    >>> interval_after(Interval(100, 110), None), interval_after(Interval(100, 110), 105)
    (Interval(begin=100, end=110), Interval(begin=100, end=110))
    >>> interval_after(Interval(100, 110), 95), interval_after(Interval(100, 110), 20)
    (Interval(begin=95, end=110), Interval(begin=20, end=60))
    """
    begin = asked.begin if end is None else min(asked.begin, end)
    return Interval(begin, min(asked.end, begin + MOST * (asked.end - asked.begin)))


def ended(checkpoint: str) -> int | None:
    """Event time up to which all is reconciled, ms; None where nobody knows."""
    try:
        frame = read_frame(open_store(checkpoint), FILE, KIND, (FORMAT,))
    except (MissingError, SnapshotError):
        return None
    return int(json.loads(bytes(frame.parts[0]))["end_ms"])


def _note(settings: Settings, request: Request, end_ms: int) -> None:
    if not request.dry:
        write_frame(open_store(settings.checkpoint.uri), FILE, KIND, FORMAT, [json.dumps({"end_ms": end_ms}).encode()])
