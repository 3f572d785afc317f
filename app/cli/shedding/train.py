"""``cep train``: a shedder learns from a recording what each query's events are worth."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from app.bootstrap.kernels import warm_kernels
from app.cli.inputs.layout import SeparatorOption, TimeColumnOption, TimeUnitOption, layout_of
from app.cli.output import Output, OutputOption, require_folders, write_json
from app.cli.settings_file import StreamsFile
from app.cli.shedding.best_shedder import best_shedder
from app.cli.shedding.shed_queries import check_shed_queries, chosen_shedders, read_shed_queries
from app.cli.whole_files import require_apart
from app.errors import CepError
from app.evaluation.calibration import calibrated
from app.evaluation.contest import Contest, Terms
from app.evaluation.operator import Operator
from app.evaluation.shed_query import ShedQuery
from app.query.plan import Plan
from app.query.text.keys import AUTO
from shedding.model_file import save
from shedding.registry import METHODS

SUFFIX = ".model"


def train(  # noqa: PLR0917 - the command's options
    queries: Annotated[list[Path], typer.Option(help="Query files or folders; may be repeated.")],
    events: Annotated[
        Path,
        typer.Option(
            help="A recording without overload: JSON lines, .csv, .avro, .parquet, .feather or .arrow; .gz and .zst are unpacked."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The model's file; with several queries a folder for <query>.model.")],
    shedder: Annotated[
        str | None,
        typer.Option(help="Who learns; auto: whoever does best on the recording, as the application has it.", show_default="the query's"),
    ] = None,
    query: Annotated[str | None, typer.Option(help="Only this query.")] = None,
    config: StreamsFile = None,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds, equal models.")] = 0,
    output: OutputOption = Output.text,
    separator: SeparatorOption = None,
    time_column: TimeColumnOption = None,
    time_unit: TimeUnitOption = "ms",
) -> None:
    """Learn a shedder's model from recorded events, for `cep replay --model` and for the application (`queries.models`).

    Every composite event of the query in the recording counts for the events that it is made of. Exit code 1 when nothing can be learned: a
    query that finds nothing in the recording, or a shedder that does not fit the query. With auto the shedders that the application runs compete
    on the recording, and the winner is to be written into the query.
    """
    require_apart({"--out": out}, [events])
    layout = layout_of(separator, time_column, time_unit)
    plans = check_shed_queries(queries, events, config, query, layout)
    for plan in plans:
        _require_learner(plan, shedder or plan.shedding.shedder)
    if len(plans) == 1:  # of several a folder is made
        require_folders(out)
    elif out.is_file():
        raise CepError(f"{out} is a file: models of several queries want a folder")
    warm_kernels()
    found = read_shed_queries(queries, events, config, query, layout)
    for one in found:
        name = shedder or one.plan.shedding.shedder
        told = _train(one, best_shedder(one, seed) if name == AUTO else name, _file(out, one, several=len(found) > 1), seed)
        if output is Output.json:
            write_json(told)


def _require_learner(plan: Plan, name: str) -> None:
    if name == AUTO:
        return
    chosen_shedders([name])
    if not METHODS[name].learns:
        raise CepError(
            f'query {plan.name}: the shedder "{name}" learns nothing\n'
            f"hint: give --shedder, one of {', '.join(name for name, entry in METHODS.items() if entry.learns)}"
        )


def _file(out: Path, query: ShedQuery, *, several: bool) -> Path:
    if not (several or out.is_dir()):
        return out
    out.mkdir(parents=True, exist_ok=True)
    return out / f"{query.plan.name}{SUFFIX}"


def _train(query: ShedQuery, shedder: str, file: Path, seed: int) -> dict[str, Any]:
    """Learns, and says on standard error what; returns the same as JSON values."""
    started = time.perf_counter()
    if not len(Operator(query.plan, query.batch).run()):
        raise CepError(
            f"query {query.plan.name}: it finds nothing in the recording, so there is nothing to learn\nhint: does cep replay find something?"
        )
    try:
        contest = Contest(query.plan_for(shedder), query.batch, query.batch, Terms(seed=seed))
        model = contest.train(query.method(shedder))
    except ValueError as error:
        raise CepError(f"query {query.plan.name}: {error}") from error
    save(calibrated(model, query.plan_for(shedder), query.batch), file)
    unseen = getattr(model, "unseen", None)
    extra = "" if unseen is None else f", {unseen:.1%} of events will be of kinds that it has not seen"
    print(
        f"{query.plan.name}: {shedder} learned from {len(query.batch):,} events{extra}; {file} ({file.stat().st_size:,} bytes, "
        f"{time.perf_counter() - started:.1f} s)",
        file=sys.stderr,
    )
    if query.plan_for(shedder).fingerprint != query.plan.fingerprint:
        print(f"hint: write shedder: {shedder} into {query.plan.name}; the model is for the query as it is matched then", file=sys.stderr)
    told = {"query": query.plan.name, "shedder": shedder, "events": len(query.batch), "model": str(file), "bytes": file.stat().st_size}
    return told if unseen is None else {**told, "unseen": float(unseen)}
