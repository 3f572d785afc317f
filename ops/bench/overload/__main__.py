"""Overload on the real application (broker, registry, Spark `local[2]`): 120 to 200 % of the capacity, and a burst of five times.

    python -m ops.bench.overload [--quick] [--workload W …] [--shedder S …] [--add] [--keep FOLDER] [--beliefs FOLDER] [--json FILE] [--plot FOLDER]
    python -m ops.bench.overload --foretell [--workload W …] [--shedder S …] [--json FILE]

For each workload the capacity is measured first (a bound of a second is two and a half batches where one takes more than 0.4 s at 40 % of it), then one application per shedder gets the rates one after the other; the same events without
shedding say what there was to find, identity by identity. Printed is a row per rate and query: detection latency (broker time of the last
constituent → broker time of the composite event, from the first second of overload on), the ratio and its standard deviation once steady, recall
and precision, and what the audit topic said: verdicts on false positives, the live estimate of recall with its interval. Event times lie equally
far apart whatever the rate of sending is, so windows hold equally many events throughout.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from app.bootstrap.class_archive import make_class_archive
from app.local.embedded import embedded_services
from app.pipeline.session import start_session
from ops.bench.overload import kept
from ops.bench.overload.beliefs import noted
from ops.bench.overload.calm import calm_costs
from ops.bench.overload.capacity import Capacity, measured_capacity
from ops.bench.overload.judged import Row, judged, ratios_over_time
from ops.bench.overload.load import CALM, SHARES, Phase, Schedule, issue_phases
from ops.bench.overload.pictures import draw
from ops.bench.overload.runs import Run, shed_run, whole_run
from ops.bench.overload.taught import Before, foretold, train
from ops.bench.overload.workloads import WORKLOADS, Place, Workload

SHEDDERS = ("random", "bl", "espice", "gspice", "pspice", "prefix")
STOP = "120s"
"""Batches of a run without shedding may take longer than the application's 20 s until it is stopped."""
TOLD_BEFORE_S = 600
"""Of sending, about: what is learned from and foretold by lies before it."""
COLUMNS = (
    "shedder",
    "rate",
    "query",
    "composites",
    "input_per_s",
    "p50_ms",
    "p99_ms",
    "drop_ratio",
    "drop_ratio_sd",
    "recall",
    "precision",
    "false_positives",
)


@dataclass(frozen=True, slots=True)
class Where:
    """What runs of a workload share; ``keep``: where runs without shedding are kept for the next call; ``beliefs``: see `noted`."""

    spark: SparkSession
    folder: Path
    workload: Workload
    models: Path | None = None
    keep: Path | None = None
    beliefs: Path | None = None


def main() -> None:
    chosen = parsed()
    make_class_archive()  # else the application makes it beside what is measured
    figures: dict[str, Any] = {
        "seconds": chosen.seconds,
        "capacity_per_s": {},
        "capacities": {},
        "unshed": [],
        "runs": [],
        "ratios": {},
        "calm_ratios": {},
    }
    if chosen.foretell:
        figures = json.loads(chosen.json.read_text())
    elif chosen.add and chosen.json.exists():
        figures |= without(json.loads(chosen.json.read_text()), chosen.workload, chosen.shedder) | {"seconds": chosen.seconds}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with embedded_services() as services:
            spark = start_session(Place(folder, services).settings(WORKLOADS["engine"], "session", None))
            spark.conf.set("spark.sql.streaming.stopTimeout", STOP)
        for workload, shedders in by_evaluator([WORKLOADS[one] for one in chosen.workload], chosen.shedder):
            rows = to_be_foretold(figures, workload, shedders) if chosen.foretell else []
            if chosen.foretell and not rows:
                print(f"{workload.label}: no run of the newest capacity is there to foretell", flush=True)
                continue
            known = figures.get("capacities", {}).get(workload.label)
            asked = chosen.capacity or (known and chosen.foretell and known["per_s"])
            if known and asked == known["per_s"]:
                capacity = Capacity(**known)
            else:
                capacity = Capacity(chosen.capacity) if chosen.capacity else measured_capacity(spark, folder, workload)
            bounded = workload.bounded(capacity.batch_ms(CALM))
            print(
                f"{workload.label}: capacity {capacity.per_s:,.0f} events/s, fixed {capacity.fixed_ms:.0f} ms per batch, of the rest {capacity.own}; bounds {bounded.bounds_ms}",
                flush=True,
            )
            if chosen.foretell:
                foretell(bounded, capacity, Before(folder, chosen.learn, round(TOLD_BEFORE_S * capacity.per_s)), rows)
                _keep(figures, chosen.json)
                continue
            figures["capacity_per_s"][workload.label] = round(capacity.per_s)
            figures["capacities"].pop(workload.label, None)
            if capacity.own:  # what is foretold is foretold by what was measured
                figures["capacities"][workload.label] = asdict(capacity)
            if chosen.calm:
                figures["calm_ratios"][workload.label] = calm_costs(spark, folder, workload, capacity.per_s, chosen.calm)
                _keep(figures, chosen.json)
            else:
                overloaded(Where(spark, folder, bounded, keep=chosen.keep, beliefs=chosen.beliefs), shedders, capacity, chosen, figures)
        spark.stop()
    if chosen.plot:
        draw(figures, chosen.plot)


def _keep(figures: dict[str, Any], file: Path) -> None:
    """Compactly: ratios of every batch are most of it."""
    file.write_text(json.dumps(figures, separators=(",", ":")) + "\n")


def without(figures: dict[str, Any], workloads: Sequence[str], shedders: Sequence[str]) -> dict[str, Any]:
    """Figures but for those of runs that are to be run again.

    >>> without({"runs": [{"workload": "engine", "shedder": one} for one in ("bl", "random")], "unshed": []}, ["engine"], ["bl"])["runs"]
    [{'workload': 'engine', 'shedder': 'random'}]
    """
    runs = [one for one in figures["runs"] if one["workload"] not in workloads or one["shedder"] not in shedders]
    again = {workload.label for workload, _ in by_evaluator([WORKLOADS[one] for one in workloads], shedders)}
    return {**figures, "runs": runs, "unshed": [one for one in figures["unshed"] if one["workload"] not in again]}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ops.bench.overload", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="20 s per rate, three rates, random and gspice")
    parser.add_argument("--workload", nargs="+", default=["engine", "ingress", "mixed"], choices=list(WORKLOADS))
    parser.add_argument("--shedder", nargs="+", help=f"default: {' '.join(SHEDDERS)}")
    parser.add_argument("--rate", nargs="+", type=float, help="multiples of the capacity")
    parser.add_argument("--seconds", type=float, help="of each rate; the burst takes half")
    parser.add_argument("--capacity", type=float, help="events/s, where it is known")
    parser.add_argument("--learn", type=int, default=60_000, help="events to learn from, at most 500,000")
    parser.add_argument("--calm", type=int, default=0, metavar="ROUNDS", help="instead: what all of it costs while nothing is shed")
    parser.add_argument("--foretell", action="store_true", help="instead: what `cep evaluate` foretells, beside the runs that the file has")
    parser.add_argument("--unforetold", action="store_true", help="do not ask `cep evaluate`")
    parser.add_argument(
        "--add", action="store_true", help="keep the other runs that the file has: all of it takes hours, and may be run in pieces"
    )
    parser.add_argument(
        "--beliefs", type=Path, metavar="FOLDER", help="what the watchdog saw and knew, batch by batch (JSON lines), a file per run"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="runs without shedding are kept there, and used again")
    parser.add_argument("--json", type=Path, default=Path(__file__).parents[1] / "overload.json")
    parser.add_argument("--plot", type=Path, help="folder for pictures")
    chosen = parser.parse_args()
    chosen.rate = chosen.rate or ((1.2, 1.6, 2.0) if chosen.quick else SHARES)
    chosen.shedder = list(chosen.shedder or (("random", "gspice") if chosen.quick else SHEDDERS))
    chosen.seconds = chosen.seconds or (20 if chosen.quick else 60)
    return chosen


def by_evaluator(workloads: Sequence[Workload], shedders: Sequence[str]) -> Iterator[tuple[Workload, list[str]]]:
    """Who sheds which workload: shedders of one level share capacity and rates.

    >>> [(workload.label, names) for workload, names in by_evaluator([WORKLOADS["engine"]], ["bl", "pspice", "random"])]
    [('engine', ['bl', 'random']), ('engine-runs', ['pspice'])]
    """
    for workload in workloads:
        found: dict[str, tuple[Workload, list[str]]] = {}
        for shedder in shedders:
            matched = workload.matched_for(shedder)
            found.setdefault(matched.label, (matched, []))[1].append(shedder)
        yield from found.values()


def overloaded(where: Where, shedders: Sequence[str], capacity: Capacity, chosen: argparse.Namespace, figures: dict[str, Any]) -> None:
    """All runs of a workload; figures are written after each, since they take minutes."""
    workload, folder = where.workload, where.folder
    diverging = unshed(where, capacity.per_s, chosen.seconds)
    figures["unshed"].append(diverging)
    print(f"{workload.label}: unshed at 120 %: {diverging}", flush=True)
    schedule = Schedule(issue_phases(chosen.rate, chosen.seconds, burst=workload.forced is None), capacity.per_s)
    before = Before(folder, chosen.learn, int(schedule.counts[-1]))
    known = {} if chosen.unforetold else foretold(workload, shedders, chosen.rate, before, capacity)
    whole: Run | None = None
    for shedder in shedders:
        models = train(workload, shedder, before)
        run, whole, rows = one_run(replace(where, models=models), shedder, schedule, whole)
        rows = [
            replace(row, capacity_per_s=round(capacity.per_s), foretold_recall=known.get((row.query, shedder, row.rate))) for row in rows
        ]
        tell(rows)
        figures["runs"] += [row.to_plain() for row in rows]
        figures["ratios"][f"{workload.name}/{shedder}"] = ratios_over_time(run)
        _keep(figures, chosen.json)


def to_be_foretold(figures: dict[str, Any], workload: Workload, shedders: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of runs that are there; not of those whose rates are multiples of another capacity than the newest."""
    own = figures["capacity_per_s"].get(workload.label)
    rows = (one for one in figures["runs"] if one["workload"] == workload.name and one["shedder"] in shedders)
    return [one for one in rows if own and one.get("capacity_per_s") == own and one["rate"].endswith("%") and not one.get("forced")]


def foretell(workload: Workload, capacity: Capacity, before: Before, rows: Sequence[dict[str, Any]]) -> None:
    """Puts what `cep evaluate` foretells beside rows of runs."""
    shedders = list(dict.fromkeys(one["shedder"] for one in rows))
    known = foretold(workload, shedders, sorted({float(one["rate"].rstrip("%")) / 100 for one in rows}), before, capacity)
    for one in rows:
        one["foretold_recall"] = known.get((one["query"], one["shedder"], one["rate"]))


def one_run(where: Where, shedder: str, schedule: Schedule, whole: Run | None) -> tuple[Run, Run, list[Row]]:
    """A run of one shedder, the rows from it, and the run without shedding, which is made when there is none yet."""
    workload = where.workload
    with embedded_services() as services:
        place = Place(where.folder / workload.name / shedder, services, where.models)
        with noted(where.beliefs and where.beliefs / f"{workload.label}-{shedder}.jsonl"):
            run = shed_run(where.spark, place, workload, shedder, schedule)
        whole = whole or kept.whole(where.keep, run.settings, workload, schedule, lambda: whole_run(where.spark, place, workload))
    return run, whole, judged(shedder, run, whole)


def unshed(where: Where, capacity: float, seconds: float) -> dict[str, object]:
    """What overload does to an application that sheds nothing: the latency of its last seconds."""
    workload = where.workload
    schedule = Schedule((Phase("", CALM, 20), Phase("120%", 1.2, seconds)), capacity)
    with embedded_services() as services:
        run = shed_run(where.spark, Place(where.folder / workload.label / "unshed", services), workload, None, schedule)
    end_ms = run.began_ms + 1000 * schedule.seconds[-1]
    found = run.composites[next(iter(workload.bounds_ms))].values()
    last = [one.told_ms - run.last_ms(one) for one in found if end_ms - 5000 <= run.last_ms(one) < end_ms]
    return {
        "workload": workload.label,
        "rate": "120%",
        "seconds": seconds,
        "told_of_last_5_s": len(last),
        "most_ms": max(last, default=None),
    }


def tell(rows: Sequence[Row]) -> None:
    for row in rows:
        plain = row.to_plain()
        print(
            *(f"{name}={plain[name]}" for name in COLUMNS),
            f"estimate={row.estimate} true={row.true_recall} of bound {row.bound_ms}",
            flush=True,
        )


if __name__ == "__main__":
    main()
