"""``cep evaluate``: shedders side by side on one's own query and recording, under overload in virtual time."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import orjson
import typer

from app.bootstrap.kernels import warm_kernels
from app.bucket.recording import rows_between
from app.cli.inputs.layout import SeparatorOption, TimeColumnOption, TimeUnitOption, layout_of
from app.cli.inputs.moments import duration_ms
from app.cli.later import Later
from app.cli.output import Output, OutputOption, require_folders, write_json
from app.cli.progress import Progress
from app.cli.settings_file import StreamsFile
from app.cli.shedding.evaluate_report import Judged, as_json, print_table
from app.cli.shedding.shed_queries import check_shed_queries, chosen_shedders, read_shed_queries
from app.cli.whole_files import require_apart, write_whole
from app.errors import CepError
from app.evaluation.contest import Contest, Terms
from app.evaluation.shed_query import ShedQuery
from app.features.runnable import not_run
from shedding.registry import METHODS

RATES = (1.2, 1.4, 1.6, 1.8, 2.0)
SHEDDERS = ("random", "universe", "bl", "espice", "gspice", "prefix", "pm-random", "pspice")
FEWEST = 100
"""Events in each part of the recording, or nothing can be said."""

draw = Later("shedding.evaluate_plots", "draw")
"""Half a second that only plots need."""


def evaluate(  # noqa: PLR0917 - the command's options
    queries: Annotated[list[Path], typer.Option(help="Query files or folders; may be repeated.")],
    events: Annotated[
        Path, typer.Option(help="A recording: JSON lines, .csv, .avro, .parquet, .feather or .arrow; .gz and .zst are unpacked.")
    ],
    shedder: Annotated[list[str] | None, typer.Option(help="Who competes; may be repeated.", show_default=", ".join(SHEDDERS))] = None,
    query: Annotated[str | None, typer.Option(help="Only this query.")] = None,
    config: StreamsFile = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(min=0.1, help="Input rate as a multiple of the capacity; may be repeated.", show_default="1.2 … 2.0"),
    ] = None,
    learn: Annotated[float, typer.Option(min=0.05, max=0.95, help="Share of the recording to learn from; the rest is judged.")] = 0.5,
    bound: Annotated[str | None, typer.Option(help="Latency bound, as 500 ms.", show_default="the query's, or 1 s")] = None,
    safety: Annotated[float, typer.Option(min=0.05, max=0.99, help="Share of the bound at which shedding starts.")] = 0.8,
    capacity: Annotated[float, typer.Option(min=1, help="Events per second that the query manages, in virtual time.")] = 10_000.0,
    seed: Annotated[int, typer.Option(min=0, help="Of all chance.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Write all figures as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them: .png, .svg or .pdf; with several queries one file each.")] = None,
    output: OutputOption = Output.text,
    separator: SeparatorOption = None,
    time_column: TimeColumnOption = None,
    time_unit: TimeUnitOption = "ms",
    *,
    fixed: Annotated[
        bool,
        typer.Option("--fixed", help="Drop the excess from the first event on, instead of when the queue is long: compares choices alone."),
    ] = False,
    selected: Annotated[
        bool,
        typer.Option(
            "--selected",
            help="Leave out the events that no item takes, as selection does before anything is shed: there is nothing to gain from them.",
        ),
    ] = False,
    measured: Annotated[
        bool,
        typer.Option(
            "--measured",
            help="Events cost what matching those that are left really takes, and decisions what they take: who keeps what is dear must drop more. Figures then depend on this machine.",
        ),
    ] = False,
    own_share: Annotated[
        float,
        typer.Option(
            "--own-share",
            help="Of the application's work on an event, how much is the query's own. The rest (reading, other queries) is there whatever is dropped, so more of its own must go. Wants --measured.",
            min=0.01,
            max=1.0,
        ),
    ] = 1.0,
) -> None:
    """Compare shedders: what each of them would cost the query under overload, in lost and in wrong composite events, and in latency.

    The recording is cut in two: shedders learn from the first part, and are judged on the second, against what the query finds there without
    shedding. Arrivals, work and latency are virtual, so figures do not depend on this machine; only ns per decision is measured, and with
    --measured what is left to be matched. When the first event arrives the queue is as long as is safe already: what counts is overload, not how it came.
    """
    if plot is not None and plot.suffix not in (".png", ".svg", ".pdf"):
        raise CepError(f"{plot}: plots are .png, .svg or .pdf")
    if plot is not None and find_spec("matplotlib") is None:  # an image is built without it
        raise CepError("--plot wants matplotlib, which is not installed here; --json writes the figures")
    if own_share < 1 and not measured:
        raise CepError("--own-share is a share of the measured work: it wants --measured")
    require_folders(json, plot)
    require_apart({"--json": json, "--plot": plot}, [events])
    names = chosen_shedders(shedder or SHEDDERS)
    rates = sorted(rate or RATES)
    bound_ms = None if bound is None else duration_ms(bound, "--bound")
    layout = layout_of(separator, time_column, time_unit)
    check_shed_queries(queries, events, config, query, layout)
    warm_kernels()
    found = [one.selected() if selected else one for one in read_shed_queries(queries, events, config, query, layout)]
    judged = []
    for one in found:
        _require_enough(one, learn)
    for one in found:
        bound_s = (bound_ms or one.plan.shedding.latency_bound_ms or 1000) / 1000
        terms = Terms(capacity, bound_s, safety, seed=seed, fixed=fixed, overloaded=not fixed, measured=measured, own_share=own_share)
        judged.append(_judged(one, names if shedder else _run_on(one, names), rates, terms, learn))
        write_json(as_json(judged[-1])) if output is Output.json else print_table(judged[-1])
        if plot is not None:
            draw(judged[-1], plot if len(found) == 1 else plot.with_stem(f"{plot.stem}-{one.plan.name}"))
    if json is not None:
        write_whole(json, orjson.dumps([as_json(one) for one in judged], option=orjson.OPT_INDENT_2) + b"\n")


def _run_on(query: ShedQuery, names: list[str]) -> list[str]:
    """Those that the application would run on the query; who wants to see others names them."""
    refused = {name: why for name in names if (why := not_run(query.plan_for(name), name)) is not None}
    for why in refused.values():
        print(f"{query.plan.name}: {why}", file=sys.stderr)
    return [name for name in names if name not in refused]


def _require_enough(query: ShedQuery, learn: float) -> None:
    """Of each query before the first is judged, which takes minutes."""
    count = len(query.batch)
    if min(int(count * learn), count - int(count * learn)) < FEWEST:
        raise CepError(f"query {query.plan.name}: {count:,} events are too few to learn from and to judge by; {2 * FEWEST} are the least")


def _judged(query: ShedQuery, names: list[str], rates: list[float], terms: Terms, learn: float) -> Judged:
    events = query.batch
    cut = int(len(events) * learn)
    contests: dict[str, Contest] = {}
    standings, left_out = [], {}
    progress = Progress(f"judging {query.plan.name}, runs", len(names) * len(rates))
    for name in names:
        kind = "runs" if METHODS[name].of_matches else "own"
        if kind not in contests:
            contests[kind] = Contest(query.plan_for(name), rows_between(events, 0, cut), rows_between(events, cut, len(events)), terms)
        try:
            shedder = query.method(name)
            model = contests[kind].train(shedder)
            for standing in contests[kind].standings(shedder, model, rates):
                standings.append(standing)
                progress.advance(1)
        except ValueError as error:
            left_out[name] = str(error)
    progress.end()
    truth = len(next(iter(contests.values())).truth)
    return Judged(query.plan.name, cut, len(events) - cut, truth, terms, tuple(standings), left_out)
