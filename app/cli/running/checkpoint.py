"""``cep checkpoint``: what is in one, is it whole, a copy of it, and ways out of trouble. All but ``ls`` want the application stopped."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Table

from app.cli.later import PLAIN
from app.cli.output import Output, OutputOption, write_json
from app.cli.screen import screen
from app.cli.settings_file import SettingsFile
from app.config.addresses import BucketAddress, parse_address
from app.config.settings import S3, Settings, load_settings
from app.errors import CepError, ConfigurationError, Finding
from app.owners.forking import fork as fork_checkpoint
from app.owners.inventory import BucketInventory, Inventory, faults, inventory
from app.owners.skipping import skip as skip_batch
from app.owners.sole import sole_driver
from app.pipeline.moving import numbers_after_moves
from app.pipeline.moving import rescale as move_state
from app.pipeline.numbers import load_numbers
from app.storage.open import open_store
from app.storage.store import Store

checkpoint = typer.Typer(
    name="checkpoint", help="Look into the application's checkpoint, and get out of trouble.", no_args_is_help=True, **PLAIN
)


@checkpoint.command("ls")
def ls(settings: SettingsFile = None, output: OutputOption = Output.text) -> None:
    """Show what is in the checkpoint."""
    loaded = load_settings(settings, os.environ)
    found = inventory(open_store(loaded.checkpoint.uri), load_numbers(loaded.checkpoint.uri).home.folder)
    if output is Output.json:
        write_json(plain(loaded.checkpoint.uri, found))
        return
    console = screen()
    for line in summary(found):
        console.print(line)
    table = Table("bucket", "snapshots after batch", "bytes", "log", "bytes", box=None, pad_edge=False)
    for bucket in found.buckets:
        table.add_row(*_row(bucket))
    console.print(table)


@checkpoint.command("verify")
def verify(settings: SettingsFile = None, output: OutputOption = Output.text) -> None:
    """Read all of the checkpoint; exit 1 and say what is damaged or missing, 78 where there is none."""
    loaded = load_settings(settings, os.environ)
    store = _there(loaded)
    wrong = []
    with sole_driver(loaded):
        state = load_numbers(loaded.checkpoint.uri).home.folder
        for fault in faults(store, loaded.checkpoint.uri, state):
            print(fault, file=sys.stderr)
            wrong.append(fault)
    found = inventory(store, state)
    size = sum(found.sizes.values())
    if output is Output.json:
        write_json({"checkpoint": loaded.checkpoint.uri, "bytes": size, "buckets": len(found.buckets), "faults": wrong})
    else:
        print(f"{size:,} bytes in {len(found.buckets)} buckets: {len(wrong) or 'no'} faults")
    if wrong:
        print(
            "hint: restore the files that are named from a copy; ops/runbooks/checkpoints.md says what can be done without one",
            file=sys.stderr,
        )
        raise typer.Exit(1)


@checkpoint.command("fork")
def fork(
    to: Annotated[str, typer.Argument(metavar="URI", help="A folder or s3a:// prefix that holds nothing yet.")],
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """Copy the checkpoint, for an experiment or as a way back: the copy goes on from where this one is. Exit 78 where there is none.

    A bucket is looked for where checkpoint.s3 says the checkpoint's own is, unless the URI has an endpoint_override and a region behind a question mark.
    """
    loaded = load_settings(settings, os.environ)
    store, target = _there(loaded), _target(to, loaded.checkpoint.s3)
    with sole_driver(loaded):
        files, size = fork_checkpoint(store, target)
    if output is Output.json:
        write_json({"copied_to": to, "files": files, "bytes": size})
        return
    print(f"{files} files, {size:,} bytes copied to {to}; for an experiment give its application another name, topics.prefix and http.port")


def _there(settings: Settings) -> Store:
    """The checkpoint.

    Raises:
        ConfigurationError: there is none, or nothing but the locks of who looked for one.
    """
    store = open_store(settings.checkpoint.uri)
    if all(one.name.endswith(".lock") for one in store.names()):
        hint = "is the volume mounted, is checkpoint.path right? an application that has never run has none"
        raise ConfigurationError([Finding(f"there is no checkpoint in {settings.checkpoint.uri}", hint=hint)])
    return store


def _target(uri: str, s3: S3) -> Store:
    try:
        address = parse_address(uri)
    except ValueError as error:
        raise ConfigurationError([Finding(str(error))]) from error
    if isinstance(address, BucketAddress):
        uri = replace(address, endpoint=address.endpoint or s3.endpoint, region=address.region or s3.region).uri
    return open_store(uri)


@checkpoint.command("skip")
def skip(
    batch: Annotated[int, typer.Argument(help="The batch that fails again and again.")],
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """Leave a batch out that cannot be worked off; its offsets are written to a file. Exit 78 where there is no checkpoint."""
    loaded = load_settings(settings, os.environ)
    store = _there(loaded)
    with sole_driver(loaded):
        numbers = numbers_after_moves(loaded.checkpoint.uri)
        if numbers.buckets is None:
            raise CepError(f"the checkpoint {loaded.checkpoint.uri} holds no state yet")
        name = skip_batch(store, batch, numbers.buckets, numbers.home.folder)
    if output is Output.json:
        write_json({"left_out": batch, "offsets": f"{loaded.checkpoint.uri}/{name}"})
        return
    print(f"batch {batch} is left out; its offsets are in {loaded.checkpoint.uri}/{name}")


@checkpoint.command("rescale")
def rescale(
    buckets: Annotated[int, typer.Option("--buckets", min=1, max=4096, help="How many there are to be.")],
    settings: SettingsFile = None,
    output: OutputOption = Output.text,
) -> None:
    """Move the state to another number of buckets; nothing is lost, and identities stay.

    So it is for every query: what after: and emit: longest go by moves with the partition, and so does bounded memory, which every key has for itself.
    Exit codes: 78 there is no checkpoint, 75 a driver holds it, 69 its storage is away, 1 it cannot be moved (the old state counts).
    """
    loaded = load_settings(settings, os.environ)
    _there(loaded)
    started = time.monotonic()
    with sole_driver(loaded):
        done = move_state(loaded.checkpoint.uri, buckets, lambda what: print(what, file=sys.stderr))
    if output is Output.json:
        moved = {} if done.state is None else {"after_batch": done.state.committed, "bytes": sum(done.state.sizes)}
        write_json(
            {"before": done.before, "buckets": buckets, "moved": done.state is not None, "settings_say": loaded.spark.buckets, **moved}
        )
        return
    if done.state is None:
        print(f"the state is in {buckets} buckets already: nothing was to be done")
    else:
        after = "before the first batch" if done.state.committed is None else f"as it is after batch {done.state.committed}"
        size, seconds = sum(done.state.sizes), time.monotonic() - started
        print(f"the state {after} was moved from {done.before} to {buckets} buckets: {size:,} bytes in {seconds:.1f} s")
    if loaded.spark.buckets != buckets:
        print(f"set spark.buckets: {buckets} before the application starts; the settings have {loaded.spark.buckets}")


def summary(found: Inventory) -> list[str]:
    """What there is, in a few lines."""
    committed = "nothing is committed" if found.committed is None else f"committed up to batch {found.committed}"
    unfinished = "" if found.unfinished is None else f", batch {found.unfinished} is unfinished: the next start repeats it"
    sizes = ", ".join(f"{folder} {size:,}" for folder, size in sorted(found.sizes.items()))
    return [f"{committed}{unfinished}", f"{found.runs} runs, {len(found.deployments)} deployments; bytes: {sizes}"]


def plain(uri: str, found: Inventory) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "checkpoint": uri,
        "planned": found.planned,
        "committed": found.committed,
        "unfinished": found.unfinished,
        "runs": found.runs,
        "deployments": list(found.deployments),
        "bytes": dict(found.sizes),
        "buckets": [_plain_bucket(bucket) for bucket in found.buckets],
    }


def _plain_bucket(bucket: BucketInventory) -> dict[str, Any]:
    entries = sorted(bucket.listing.entries)
    return {
        "bucket": bucket.number,
        "snapshots": [{"batch": one.batch, "bytes": one.size} for one in bucket.listing.generations],
        "log": {"first": entries[0], "last": entries[-1]} if entries else None,
        "log_bytes": bucket.log_bytes,
    }


def _row(bucket: BucketInventory) -> tuple[str, ...]:
    generations, entries = bucket.listing.generations, sorted(bucket.listing.entries)
    return (
        str(bucket.number),
        ", ".join(str(one.batch) for one in generations) or "–",
        ", ".join(f"{one.size:,}" for one in generations) or "–",
        f"{entries[0]}–{entries[-1]}" if entries else "–",
        f"{bucket.log_bytes:,}",
    )
