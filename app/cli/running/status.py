"""``cep status``: what the running application does, query by query."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.inputs.moments import duration_ms
from app.cli.output import Output, OutputOption, write_json
from app.cli.running.asking import Asked, token_in
from app.cli.screen import screen
from app.cli.settings_file import SettingsFile
from app.config.durations import format_duration
from app.config.loopback import is_loopback
from app.config.settings import Settings, load_settings
from app.observe.scrape import Scrape, between, quantile

SHARE = 0.99
LATENCY, LATE = "cep_detection_latency_seconds", "cep_late_composite_events_total"
NOT_READY = 503


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the application."""

    at_s: float
    metrics: Scrape


def status(  # noqa: PLR0917 - the command's options
    settings: SettingsFile = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="Where it listens, as http://host:8080, the control port where there is one (8081 in the chart); wins over the settings.",
        ),
    ] = None,
    over: Annotated[
        str, typer.Option("--over", help="For so long rates and latencies are looked at; 0 s: one look, without rates.")
    ] = "2 s",
    token_file: Annotated[Path | None, typer.Option("--token-file", help="File with the token, where reading needs it.")] = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="PEM certificates of who signed the server's, for https.")] = None,
    output: OutputOption = Output.text,
) -> None:
    """Show what the running application does, query by query.

    State, input rate (events that the query could use), drop ratio, latency (99 of 100 are below) against its bound, recall and precision as estimated while it
    sheds, composite events, and the last reading of the query files. The settings say where the application listens and what it wants to be shown. In Kubernetes either
    `kubectl exec` into the driver, or `kubectl port-forward` to its control port (8081) and --url.

    Exit codes: 0 ready, 1 it answers but is not ready, or its query files are broken; 69 nobody answers, 77 the token is missing or wrong.
    """
    known = load_settings(settings, os.environ) if url is None or settings is not None else None
    server, pause_s = server_of(known, url, token_file, ca_file), duration_ms(over, "--over") / 1000
    ready, reasons = _readiness(server)
    first = _look(server)
    if pause_s:
        time.sleep(pause_s)
    second = _look(server) if pause_s else first
    found = report(server.url, json.loads(server.get("/queries")[1]), json.loads(server.get("/version")[1]), first, second)
    found |= {"ready": ready, "not_ready": reasons}
    if output is Output.json:
        write_json(found)
    else:
        show(found)
    if not ready or found["last_reading"]["outcome"] == "broken":
        raise typer.Exit(1)


def server_of(settings: Settings | None, url: str | None, token_file: Path | None, ca_file: Path | None) -> Asked:
    """Where the application listens, and what is shown to it: as told, else as its settings say."""
    if settings is None:
        return Asked((url or "").rstrip("/"), token_in(token_file), ca_file)
    control = settings.http.control
    secret = control.token.get_secret_value() if control.token is not None and control.read_with_token else ""
    address, certificate = (url or settings.http.control_url).rstrip("/"), ca_file or control.certificate_file
    here = is_loopback(urlsplit(address).hostname)  # through a forwarded port as well, where no certificate's name fits
    return Asked(address, token_in(token_file) or secret, certificate, own=here and ca_file is None)


def _readiness(server: Asked) -> tuple[bool, list[str]]:
    code, text = server.get("/readyz?verbose", also=NOT_READY)
    return code != NOT_READY, [line.removeprefix("[-]") for line in text.splitlines() if line.startswith("[-]")]


def _look(server: Asked) -> Look:
    at_s = time.monotonic()
    try:
        return Look(at_s, Scrape.of(server.get("/metrics")[1]))
    except ValueError as error:
        raise server.stranger() from error


def report(base: str, told: Mapping[str, Any], version: Mapping[str, Any], first: Look, second: Look) -> dict[str, Any]:
    """All that is to be told, as JSON values; rates are per second, times in ms, shares from 0 to 1, what is not known is null."""
    metrics = second.metrics
    return {
        "url": base,
        "version": version.get("version"),
        "generation": told["generation"],
        "last_reading": told["last_reading"],
        "arrival_per_s": _rate("cep_events_consumed_total", first, second),
        "lag_records": metrics.total("cep_consumer_lag_records"),
        "last_commit_ms": _milliseconds(metrics.value("cep_checkpoint_last_success_timestamp_seconds")),
        "batches": metrics.total("cep_batches_total"),
        "owners": metrics.total("cep_owners"),
        "bounds_reachable": metrics.value("cep_latency_bound_reachable") != 0,
        "queries": [_of_query(one, first, second) for one in told["queries"]],
    }


def _of_query(told: Mapping[str, Any], first: Look, second: Look) -> dict[str, Any]:
    name = told["query"]
    arrived = (
        between(first.metrics.buckets(LATENCY, query=name), second.metrics.buckets(LATENCY, query=name)) if second is not first else {}
    )
    of_now = any(arrived.values())
    buckets = arrived if of_now else second.metrics.buckets(LATENCY, query=name)
    bound_s = quantile(buckets, SHARE)
    above_s = max((bound for bound in buckets if bound != float("inf")), default=None) if bound_s == float("inf") else None
    return {
        "query": name,
        "version": told.get("version"),
        "status": told["status"],
        "broken": bool(told.get("broken", told["status"] == "broken")),
        "input_per_s": _rate("cep_candidate_events_total", first, second, query=name),
        "drop_ratio": told.get("drop_ratio"),
        "shedder": told.get("shedder"),
        "latency_p99_ms": None if bound_s is None or bound_s == float("inf") else bound_s * 1000,
        "latency_p99_above_ms": None if above_s is None else above_s * 1000,
        "latency_over": None if bound_s is None else "now" if of_now else "since_start",
        "latency_bound_ms": told.get("latency_bound_ms"),
        "late_ratio": _late_ratio(name, first if of_now else None, second, max(buckets.values(), default=0)),
        "recall": told.get("recall"),
        "precision": told.get("precision"),
        "composite_events": told.get("matches"),
        "composite_events_per_s": _rate("cep_matches_emitted_total", first, second, query=name),
        "partial_matches": told.get("partial_matches"),
    }


def _late_ratio(query: str, first: Look | None, second: Look, found: float) -> float | None:
    """Share of the composite events that came after the bound: counted, since the histogram does not tell a bound between two of its buckets. None where nothing was found, or nothing is counted.

    Args:
        query: its name.
        first: None for all since the start.
        second: the later look.
        found: composite events between the two.
    """
    if not found or second.metrics.value(LATE, query=query) is None:
        return None
    before, after = 0.0 if first is None else first.metrics.total(LATE, query=query), second.metrics.total(LATE, query=query)
    return min(1.0, (after - before if after >= before else after) / found)


def _rate(name: str, first: Look, second: Look, **labels: str) -> float | None:
    """Per second between two looks; None with one look, and when the application began anew between them."""
    if second is first:
        return None
    more = second.metrics.total(name, **labels) - first.metrics.total(name, **labels)
    return None if more < 0 else round(more / (second.at_s - first.at_s), 3)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def show(found: Mapping[str, Any]) -> None:
    """The same for people."""
    console = screen()
    state = Text("ready", "green") if found["ready"] else Text(f"not ready: {'; '.join(found['not_ready'])}", "red")
    console.print(Text.assemble(f"cep {found['version']} at {found['url']}: ", state))
    lag, arriving = found["lag_records"], found["arrival_per_s"]
    rate = "" if arriving is None else f"{arriving:,.0f} events/s, "
    console.print(f"{rate}{lag:,.0f} records behind, {found['batches']:,.0f} batches, last committed {_ago(found['last_commit_ms'])}")
    if not found["bounds_reachable"]:
        console.print(Text("no drop ratio keeps all latency bounds: more cores, or fewer or cheaper queries", "red"))
    table = Table(
        "query", "state", "input/s", "dropped", "p99 / bound", "recall", "precision", "composite events", box=None, pad_edge=False
    )
    for one in found["queries"]:
        table.add_row(*_cells(one))
    console.print(table)
    if any(one["latency_over"] == "since_start" for one in found["queries"]):
        console.print("* of all composite events since the start: none came while we looked")
    _show_reading(console, found["last_reading"], found["generation"])


def _show_reading(console: Console, reading: Mapping[str, Any], generation: int | None) -> None:
    console.print(f"query files: {reading['outcome']} {_ago(reading['read_at_ms'])}, generation {generation}")
    for finding in reading["findings"]:
        place = f"{finding['path']}:{finding['line']}:{finding['column']}: " if finding["path"] else ""
        console.print(Text(f"  {place}{finding['severity']}: {finding['message']}", "red" if finding["severity"] == "error" else "yellow"))
        if finding["hint"]:
            console.print(Text(f"  → {finding['hint']}"))


def _cells(one: Mapping[str, Any]) -> list[str | Text]:
    above_ms, bound_ms = one["latency_p99_above_ms"], one["latency_bound_ms"]
    late = bound_ms is not None and (one["late_ratio"] or 0) > 1 - SHARE
    star = "*" if one["latency_over"] == "since_start" else ""
    p99 = _duration(one["latency_p99_ms"]) if above_ms is None else f"> {_duration(above_ms)}"
    latency = f"{p99}{star} / {_duration(bound_ms)}"
    good = one["status"] in ("running", "draining", "disabled") and not one["broken"]
    state = f"{one['status']}{', file broken' if one['broken'] and one['status'] != 'broken' else ''}"
    return [
        one["query"] if one["version"] is None else f"{one['query']} v{one['version']}",
        Text(state, "green" if good and one["status"] == "running" else "" if good else "red"),
        "–" if one["input_per_s"] is None else f"{one['input_per_s']:,.0f}",
        "–" if one["drop_ratio"] is None else f"{one['drop_ratio']:.0%}",
        Text(latency, "red" if late else ""),
        _interval(one["recall"]),
        _interval(one["precision"]),
        "–" if one["composite_events"] is None else f"{one['composite_events']:,}",
    ]


def _duration(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else format_duration(round(milliseconds))


def _interval(estimate: list[float] | None) -> str:
    """Lower end, value, upper end."""
    return "–" if estimate is None else f"{estimate[1]:.2f} ({estimate[0]:.2f}–{estimate[2]:.2f})"


def _ago(time_ms: int | None) -> str:
    if time_ms is None:
        return "never"
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    seconds = max(0.0, time.time() - time_ms / 1000)
    return f"{seconds:,.0f} s ago" if seconds < 120 else f"at {moment:%Y-%m-%d %H:%M:%S}Z"
