"""``cep topics plan`` and ``cep topics apply``: the topics of an application, the difference first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from app.cli.later import PLAIN
from app.config.settings import Settings, load_settings
from app.delivery.topics import TopicAdministrator, TopicChange, plan_changes, render_changes, wanted_topics
from app.errors import ConfigurationError
from app.query.compile import read_queries
from app.query.plan import Catalog
from app.query.resolved.vocabulary import UNKNOWN

topics = typer.Typer(name="topics", help="Create the topics of an application.", no_args_is_help=True, **PLAIN)

SettingsFile = Annotated[Path | None, typer.Option("--settings", help="Settings file; CEP_… variables lie over it.")]


@topics.command("plan")
def plan(settings: SettingsFile = None) -> None:
    """Show which topics would be created or changed; touch nothing."""
    _, changes = _changes(load_settings(settings, os.environ))
    print(render_changes(changes))
    print(_summary(changes))


@topics.command("apply")
def apply(settings: SettingsFile = None) -> None:
    """Create missing topics and repair their settings; partitions are never added, nothing is ever deleted."""
    administrator, changes = _changes(load_settings(settings, os.environ))
    print(render_changes(changes))
    administrator.apply(changes)
    print(f"done: {_summary(changes)}")


def _changes(settings: Settings) -> tuple[TopicAdministrator, tuple[TopicChange, ...]]:
    wanted = wanted_topics(settings, catalog_of(settings))
    administrator = TopicAdministrator(settings)
    return administrator, plan_changes(wanted, administrator.existing(topic.name for topic in wanted))


def _summary(changes: tuple[TopicChange, ...]) -> str:
    created, altered = sum(c.create for c in changes), sum(bool(c.alter) for c in changes)
    return f"{created} to create, {altered} to change, {sum(c.nothing for c in changes)} as they should be"


def catalog_of(settings: Settings) -> Catalog:
    """The queries with their outputs. Schemas do not matter here, so neither files nor registry are asked for them."""
    compiled = read_queries(settings.queries.paths, UNKNOWN)
    if any(query.enabled and query.plan is None for query in compiled.queries):
        raise ConfigurationError(compiled.errors)
    return compiled.catalog
