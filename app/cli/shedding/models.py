"""``cep models``: the models that the application has learned, which of them is in use, and ways to change that. The application may run meanwhile, and takes changes within seconds."""

from __future__ import annotations

import json as json_text
import os
import sys
import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from app.bootstrap.kernels import warm_kernels
from app.cli.later import PLAIN
from app.cli.output import Output, OutputOption, write_json
from app.cli.screen import screen
from app.cli.settings_file import SettingsFile
from app.config.settings import Settings, load_settings
from app.errors import CepError
from app.owners.model_store import NONE, Choice, ModelStore
from app.pipeline.learning.rounds import Wish, learn_round
from app.storage.open import open_store

models = typer.Typer(
    name="models", help="See, choose and learn the models that queries shed by while the application runs.", no_args_is_help=True, **PLAIN
)

Query = Annotated[str, typer.Argument(help="Name of a query.")]
AsJson = Annotated[bool, typer.Option("--json", help="As --output json; of ls one list on many lines.")]


@models.command("ls")
def ls(settings: SettingsFile = None, output: OutputOption = Output.text, *, json: AsJson = False) -> None:
    """Show all versions of all queries; the one in use is marked with *."""
    store = _store(load_settings(settings, os.environ))
    choices = store.choices()
    found = [(one, choices.get(one.query, Choice())) for one in store.versions()]
    plain = [{**one.to_plain(), "chosen": choice.version == one.version} for one, choice in found]
    if json:
        print(json_text.dumps(plain, indent=2))
        return
    if output is Output.json:
        for value in plain:
            write_json(value)
        return
    table = Table(
        "query", "version", "shedder", "learned at", "from events", "harm", "random", "in use then", "why", box=None, pad_edge=False
    )
    for one, choice in found:
        mark = "*" if choice.version == one.version else ""
        pinned = " pinned" if mark and choice.pinned else ""
        row = (
            f"{one.version}{mark}{pinned}",
            one.shedder,
            _time(one.learned_at_ms),
            f"{one.events:,}",
            *map(_percent, (one.harm, one.random, one.in_use)),
        )
        table.add_row(one.query, *row, one.why)
    console = screen()
    console.print(table if found else "no model was learned yet; a query without one sheds at random (cep models learn)")
    for query, choice in sorted(choices.items()):
        if choice.version == NONE:
            console.print(f"{query}: no model in use{' (pinned)' if choice.pinned else ''}; it sheds at random")


@models.command("show")
def show(
    query: Query, version: Annotated[int | None, typer.Argument(help="Default: the one in use.")] = None, settings: SettingsFile = None
) -> None:
    """Show all that is known of one version, as JSON."""
    store = _store(load_settings(settings, os.environ))
    choice = store.choice(query)
    if version is None and choice.version == NONE:
        raise CepError(f'query "{query}" has no model in use\nhint: cep models ls shows what there is')
    known = store.version(query, choice.version if version is None else version)
    told = {"chosen": choice.version == known.version, "pinned": choice.pinned and choice.version == known.version}
    print(json_text.dumps({**known.to_plain(), **told, "file": known.file}, indent=2))


@models.command("pin")
def pin(
    query: Query,
    version: Annotated[int, typer.Argument(help="0: none, the query sheds at random.")],
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """Use this version, whatever is learned, until it is unpinned."""
    store = _store(load_settings(settings, os.environ))
    if version != NONE:
        store.version(query, version)
    _choose(store, query, Choice(version, pinned=True, why="pinned by a person"), output)


@models.command("unpin")
def unpin(query: Query, settings: SettingsFile = None, output: OutputOption = Output.text) -> None:
    """Let what is learned come into use again; until then the version stays."""
    store = _store(load_settings(settings, os.environ))
    _choose(store, query, Choice(store.choice(query).version, why="unpinned by a person"), output)


@models.command("rollback")
def rollback(query: Query, settings: SettingsFile = None, output: OutputOption = Output.text) -> None:
    """Use the version that was in use before the present one, and pin it."""
    store = _store(load_settings(settings, os.environ))
    choice = store.choice(query)
    before = store.before(query, choice)
    if before is None:
        raise CepError(
            f'query "{query}" has no earlier version for what it is now\nhint: cep models ls shows what there is; cep models pin {query} 0 sheds at random'
        )
    _choose(store, query, Choice(before.version, pinned=True, why=f"rolled back from version {choice.version} by a person"), output)


@models.command("learn")
def learn(
    query: Annotated[str | None, typer.Option(help="Only this query.", show_default="all whose shedders learn")] = None,
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
    *,
    anyway: Annotated[bool, typer.Option("--anyway", help="Also where the model in use still fits what comes.")] = False,
    json: AsJson = False,
) -> None:
    """Learn now from the newest events of the input topics, as the running application does by itself, for the queries as it runs them, or ran them last.

    What is learned is judged on events that it has not seen, beside shedding at random and the model in use, and comes into use only when it is better than both; where what comes is no longer what the model in use learned from, when it is not surely worse than that. Exit code 1 when a
    query is named and nothing could be learned for it.
    """
    loaded = load_settings(settings, os.environ)
    warm_kernels()
    outcomes = []
    for outcome in learn_round(loaded, Wish(query, anyway), lambda text: print(text, file=sys.stderr)):
        outcomes.append(outcome)
        version = "" if outcome.learned is None else f" version {outcome.learned.version}"
        line = (
            json_text.dumps(outcome.to_plain())
            if json or output is Output.json
            else f"{outcome.query}:{version} {outcome.result}; {outcome.text} ({outcome.seconds:.1f} s)"
        )
        print(line, flush=True)
    if not outcomes:
        print("no query of the settings sheds by a model that is to be learned", file=sys.stderr)
    if query is not None and any(one.result in ("too little", "failed") for one in outcomes):
        raise typer.Exit(1)


def _store(settings: Settings) -> ModelStore:
    return ModelStore(open_store(settings.checkpoint.uri))


def _choose(store: ModelStore, query: str, choice: Choice, output: Output) -> None:
    if query not in {one.query for one in store.versions()}:
        raise CepError(f'no model was learned for a query "{query}"\nhint: cep models ls shows what there is')
    store.choose(query, Choice(choice.version, choice.pinned, int(time.time() * 1000), choice.why))
    if output is Output.json:
        write_json(
            {"query": query, "version": None if choice.version == NONE else choice.version, "pinned": choice.pinned, "why": choice.why}
        )
        return
    used = "no model: it sheds at random" if choice.version == NONE else f"version {choice.version}"
    print(
        f"{query}: {used}{', pinned' if choice.pinned else ''}; an application that runs takes it within seconds, others at their start, if it fits the query as it is then"
    )


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
