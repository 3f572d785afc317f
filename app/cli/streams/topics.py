"""``cep topics``: the topics of an application: what is there, and the difference to what should be, shown first and then made none."""

from __future__ import annotations

import os
from typing import Any

import typer
from rich.table import Table

from app.cli.later import PLAIN
from app.cli.output import Output, OutputOption, write_json
from app.cli.screen import screen
from app.cli.settings_file import SettingsFile
from app.config.settings import Settings, load_settings
from app.delivery.connection import connect
from app.delivery.topics import ExistingTopic, TopicAdministrator, TopicChange, plan_changes, render_changes, wanted_topics
from app.errors import ConfigurationError
from app.query.compile import read_queries
from app.query.plan import Catalog
from app.query.resolved.vocabulary import UNKNOWN

topics = typer.Typer(name="topics", help="Look at the topics of an application, and create them.", no_args_is_help=True, **PLAIN)


@topics.command("ls")
def ls(settings: SettingsFile = None, output: OutputOption = Output.text) -> None:
    """List the topics that the application reads and writes: what for, partitions, records that are there.

    With --output json one object per topic. Exit codes: 0, 69 no answer, 77 access refused, 78 wrong settings or queries.
    """
    loaded = load_settings(settings, os.environ)
    administrator, changes, existing = _looked(loaded)
    counts = administrator.records(existing)
    rows = [_row(change, existing.get(change.topic.name), counts.get(change.topic.name)) for change in changes]
    if output is Output.json:
        for row in rows:
            write_json(row)
        return
    table = Table("topic", "partitions", "records", "state", "what for", box=None, pad_edge=False)
    for row in rows:
        cells = ["–" if row[name] is None else f"{row[name]:,}" for name in ("partitions", "records")]
        table.add_row(row["topic"], *cells, row["state"], row["purpose"])
    console = screen()
    console.print(table)
    if any(row["state"] != "ok" for row in rows):
        console.print("→ cep topics plan tells the difference, cep topics apply makes it none")


@topics.command("plan")
def plan(settings: SettingsFile = None, output: OutputOption = Output.text) -> None:
    """Show which topics would be created or changed; touch nothing.

    Exit codes: 0, 69 no answer, 77 access refused, 78 wrong settings or queries.
    """
    _, changes, _ = _looked(load_settings(settings, os.environ))
    _tell(changes, output, applied=False)


@topics.command("apply")
def apply(settings: SettingsFile = None, output: OutputOption = Output.text) -> None:
    """Create missing topics and repair their settings; partitions are never added, nothing is ever deleted.

    Exit codes: 0, 69 no answer, 77 access refused, 78 wrong settings or queries.
    """
    administrator, changes, _ = _looked(load_settings(settings, os.environ))
    if output is Output.text:
        print(render_changes(changes))
    administrator.apply(changes)
    if output is Output.json:
        _tell(changes, output, applied=True)
    else:
        print(f"done: {_summary(changes)}")


def _looked(settings: Settings) -> tuple[TopicAdministrator, tuple[TopicChange, ...], dict[str, ExistingTopic]]:
    wanted = wanted_topics(settings, catalog_of(settings))
    connect(settings.kafka)  # says why, where it does not get through
    administrator = TopicAdministrator(settings)
    existing = administrator.existing(topic.name for topic in wanted)
    return administrator, plan_changes(wanted, existing), existing


def _tell(changes: tuple[TopicChange, ...], output: Output, *, applied: bool) -> None:
    if output is Output.text:
        print(render_changes(changes))
        print(_summary(changes))
        return
    for change in changes:
        write_json({**_of_change(change), "applied": applied and not change.nothing})


def _of_change(change: TopicChange) -> dict[str, Any]:
    """A difference as JSON values."""
    topic = change.topic
    return {
        "topic": topic.name,
        "purpose": topic.purpose,
        "action": "create" if change.create else "alter" if change.alter else "none",
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "config": dict(topic.config if change.create else change.alter),
        "remarks": list(change.remarks),
    }


def _row(change: TopicChange, existing: ExistingTopic | None, records: int | None) -> dict[str, Any]:
    state = "missing" if change.create else "differs" if change.alter or change.remarks else "ok"
    partitions = None if existing is None else existing.partitions
    return {"topic": change.topic.name, "purpose": change.topic.purpose, "partitions": partitions, "records": records, "state": state}


def _summary(changes: tuple[TopicChange, ...]) -> str:
    created, altered = sum(c.create for c in changes), sum(bool(c.alter) for c in changes)
    return f"{created} to create, {altered} to change, {sum(c.nothing for c in changes)} as they should be"


def catalog_of(settings: Settings) -> Catalog:
    """The queries with their outputs. Schemas do not matter here, so neither files nor registry are asked for them."""
    compiled = read_queries(settings.queries.paths, UNKNOWN)
    unread = {finding.location.path if finding.location else None for finding in compiled.errors}
    unread -= {query.document.node.file.path for query in compiled.queries}  # files that are no queries at all
    if unread or any(query.enabled and query.plan is None for query in compiled.queries):
        raise ConfigurationError(compiled.errors)
    return compiled.catalog
