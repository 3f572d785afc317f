"""``cep reconcile``: after an overload, what shedding lost is published, and what it made up is taken back."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from typing import Annotated, Any

import orjson
import typer
from pyspark.sql import SparkSession
from rich.table import Table

from app import __version__
from app.bucket.hold import NEVER
from app.cli.inputs.moments import duration_ms, time_ms
from app.cli.output import Output, OutputOption, write_json
from app.cli.progress import Progress
from app.cli.screen import screen
from app.cli.settings_file import SettingsFile
from app.config.settings import Settings, load_settings
from app.errors import CepError
from app.observe.logs import configure_logging
from app.pipeline.reconcile.aims import Request
from app.pipeline.reconcile.audit import audit_value
from app.pipeline.reconcile.failure import NothingToDoError, moment
from app.pipeline.reconcile.going_on import go_on as continued
from app.pipeline.reconcile.outcome import Outcome, Row
from app.pipeline.reconcile.reconcile import Telling
from app.pipeline.reconcile.reconcile import reconcile as compare
from app.pipeline.reconcile.scope import Interval
from app.pipeline.session import start_session


def reconcile(
    begin: Annotated[str, typer.Option("--from", help="When shedding began: event time, ISO-8601 (UTC without a zone) or milliseconds.")],
    end: Annotated[str, typer.Option("--to", help="When it ended.")],
    query: Annotated[
        list[str] | None, typer.Option(help="Only this query; may be repeated.", show_default="all that shed, and all that read these")
    ] = None,
    settings: SettingsFile = None,
    ahead: Annotated[
        str, typer.Option(help="How far event times may be ahead of Kafka's timestamps; the streams' max_ahead where that is less.")
    ] = "1 m",
    *,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="For a job that runs again and again: begin where the last one ended, if that is earlier than --from (then at most four times as long), and remember where this one ends.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Publish nothing; tell counts, true recall and precision.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As --output json, on many lines.")] = False,
    output: OutputOption = Output.text,
) -> None:
    """Publish the composite events that shedding lost, and retract those that it made up.

    A Spark job over the interval and windows at both ends: the same queries, nothing shed. What is missing on the topics comes with the identity that it would have
    had, its ce_type ends in .reconciled; what is false comes once more, its ce_type ends in .retracted. A second time there is nothing to do. The application may run meanwhile.

    Exit codes: 0 done, also where no event of the interval has come and none waits, 1 it cannot be said what would have been found (the text says why, and from when on it can), 69 broker, registry or the
    checkpoint's storage missing, 75 another reconciliation is about to publish, 77 access refused, 78 wrong settings or a query that does not run.
    """
    loaded = load_settings(settings, os.environ)
    configure_logging(loaded.logging.model_copy(update={"level": "WARNING"}), loaded.application, __version__, sys.stderr)
    request = Request(Interval(time_ms(begin, "--from"), time_ms(end, "--to")), tuple(query or ()), duration_ms(ahead, "--ahead"), dry_run)
    if request.shed.end < request.shed.begin:
        raise CepError(f"--to {end} is before --from {begin}")
    with ExitStack() as cleanup:
        screen = _Screen()
        cleanup.callback(screen.end)
        try:
            compared = continued if go_on else compare
            outcome = compared(loaded, request, lambda: _session(loaded, cleanup), Telling(screen.begin, screen.advance))
        except NothingToDoError as error:
            print(error, file=sys.stderr)
            outcome = Outcome(request.shed, (), {}, 0, {}, round(time.time() * 1000), NEVER)
    if json:
        sys.stdout.buffer.write(orjson.dumps(as_json(outcome, dry=dry_run), option=orjson.OPT_INDENT_2) + b"\n")
    elif output is Output.json:
        write_json(as_json(outcome, dry=dry_run))
    else:
        show(outcome, dry=dry_run)


def as_json(outcome: Outcome, *, dry: bool) -> dict[str, Any]:
    """What there is to tell, for programs."""
    return {
        "published": not dry,
        "records": outcome.records,
        "gone": sum(outcome.gone.values()),
        "left_out": dict(outcome.left_out),
        "queries": [audit_value(outcome, row) for row in outcome.rows],
    }


def show(outcome: Outcome, *, dry: bool) -> None:
    """The same for people."""
    console = screen()
    table = Table("query", "true", "published", "true of these", "recall", "precision", "missing", "false", box=None, pad_edge=False)
    for row in outcome.rows:
        table.add_row(*_cells(row))
    console.print(table)
    for row in outcome.rows:
        if row.cut:
            console.print(
                f"{_name(row)}: the application has only come to {moment(row.scope.end + 1)}; what is later is left to another time"
            )
    for name, why in outcome.left_out.items():
        console.print(f"{name} is left out: {why}")
    if gone := sum(outcome.gone.values()):
        console.print(f"{gone} false composite events could not be retracted: their records are gone")
    console.print("nothing is published (--dry-run)" if dry else "what is missing is published, what is false is retracted")


def _cells(row: Row) -> tuple[str, ...]:
    one = row.difference
    counts = (one.true, one.published, one.published_true)
    shares = ("–" if share is None else f"{share:.4f}" for share in (one.recall, one.precision))
    return (_name(row), *(f"{count:,}" for count in counts), *shares, f"{len(one.missing):,}", f"{len(one.false):,}")


def _name(row: Row) -> str:
    return f"{row.kind.query} (timeouts)" if row.kind.timeouts else row.kind.query


def _session(settings: Settings, cleanup: ExitStack) -> SparkSession:
    session = start_session(settings)
    cleanup.callback(session.stop)
    return session


class _Screen:
    """Says what is being done, and how far it is."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._started = time.monotonic()

    def begin(self, what: str, records: int) -> None:
        self.end()
        counted = f", {records:,} records" if records else ""
        print(f"{time.monotonic() - self._started:6.1f} s  {what}{counted}", file=sys.stderr)
        self._bar = Progress(f"{what}, records", records)

    def advance(self, records: int) -> None:
        if self._bar is not None:
            self._bar.advance(records)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.end()
            self._bar = None
