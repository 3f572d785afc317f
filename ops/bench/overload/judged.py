"""A run against the one without shedding over the same topic: latencies, ratios, recall, precision, verdicts, estimates. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from ops.bench.overload import speed
from ops.bench.overload.runs import Composite, Run

SETTLING_S = 10.0
"""After which a phase's overload is steady (or a third of the phase, where that is shorter)."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one query in one phase.

    Attributes:
        rate: name of the phase: a multiple of the capacity, or burst; ``all`` for what is known of the whole run only.
        seconds: of the phase.
        forced: the ratio was set, and not the watchdog's.
        input_per_s: events that reached the broker in the phase; a sender that shares the machine may be slower than it should.
        p99_ms: of the detection latency (broker time of the last constituent → broker time of the composite event), from the phase's first second on.
        drop_ratio: mean of the batches' ratios, once steady.
        drop_ratio_sd: their standard deviation.
        speed_sd: that of the processor's speed from batch to batch, as a share of its mean (`ops.bench.overload.speed`).
        recall: share of the unshed run's composite events that was found.
        precision: share of what was found that the unshed run finds.
        capacity_per_s: of the workload without shedding, that rates are multiples of.
        foretold_recall: by `cep evaluate`, where it was asked.
        estimate: of recall, live, the last one: lower end, value, upper end.
        true_recall: what the estimate speaks of: over its period.
        wrongly_confirmed: composite events that are false and have the verdict CONFIRMED.
    """

    workload: str
    shedder: str
    rate: str
    query: str
    bound_ms: int | None
    composites: int
    seconds: float | None = None
    forced: bool = False
    input_per_s: int | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    most_ms: float | None = None
    drop_ratio: float = 0.0
    drop_ratio_sd: float = 0.0
    speed_sd: float | None = None
    recall: float | None = None
    precision: float | None = None
    capacity_per_s: int | None = None
    foretold_recall: float | None = None
    estimate: tuple[float, float, float] | None = None
    true_recall: float | None = None
    true_recall_in_interval: bool | None = None
    false_positives: int = 0
    false_positives_without_verdict: int = 0
    wrongly_confirmed: int = 0
    unverifiable: int = 0
    behind_s: float = 0.0

    def to_plain(self) -> dict[str, object]:
        """Values for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Query:
    """What a run and the unshed one found of a query; by identity also verdicts, and when the last event arrived (broker time in the run)."""

    found: Mapping[str, Composite]
    true: Mapping[str, Composite]
    verdicts: Mapping[str, str]
    last_ms: Mapping[str, float]

    @staticmethod
    def of(run: Run, whole: Run, query: str) -> Query:
        """Of a run, and of the unshed one over the same events."""
        found, true = run.composites[query], whole.composites[query]
        verdicts = {one["composite_event"]: one["verdict"] for one in run.audits.get("Verdict", ()) if one["query"] == query}
        return Query(found, true, verdicts, {key: run.last_ms(one) for key, one in {**true, **found}.items()})

    def between(self, composites: Iterable[str], begin_ms: float, end_ms: float) -> set[str]:
        """Those whose last event arrived in the time."""
        return {key for key in composites if begin_ms <= self.last_ms[key] < end_ms}

    def accounts(self, begin_ms: float, end_ms: float) -> dict[str, object]:
        """Fields of a `Row`, of composite events whose last constituent arrived in the time."""
        found, due = self.between(self.found, begin_ms, end_ms), self.between(self.true, begin_ms, end_ms)
        false = found - due
        return {
            "composites": len(found),
            "recall": round(len(found & due) / len(due), 4) if due else None,
            "precision": round(len(found & due) / len(found), 4) if found else None,
            "false_positives": len(false),
            "false_positives_without_verdict": sum(key not in self.verdicts for key in false),
            "wrongly_confirmed": sum(self.verdicts.get(key) == "CONFIRMED" for key in false),
            "unverifiable": sum(self.verdicts.get(key) == "UNVERIFIABLE" for key in found),
        }

    def latencies(self, begin_ms: float, end_ms: float) -> dict[str, object]:
        """Fields of a `Row`."""
        found = [self.found[key].told_ms - self.last_ms[key] for key in self.between(self.found, begin_ms, end_ms)]
        if not found:
            return {}
        p50, p95, p99, most = np.percentile(found, (50, 95, 99, 100)).round().tolist()
        return {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "most_ms": most}


def judged(shedder: str, run: Run, whole: Run) -> list[Row]:
    """A row per phase and query, and one per query for the whole run.

    Args:
        whole: without shedding, over the same topic.
    """
    rows = []
    starts_ms = (run.began_ms + 1000 * run.schedule.seconds).tolist()
    for query in run.workload.queries:
        own = Query.of(run, whole, query)
        bound_ms, forced = run.workload.bounds_ms.get(query), run.workload.forced is not None
        known = Row(run.workload.name, shedder, "all", query, bound_ms, 0, forced=forced, behind_s=round(run.behind_s, 3))
        for phase, begin, end in zip(run.schedule.phases, starts_ms[:-1], starts_ms[1:], strict=True):
            if phase.name:
                ratios = _ratios(run, query, begin + 1000 * min(SETTLING_S, phase.seconds / 3), end)
                row = replace(known, rate=phase.name, seconds=phase.seconds, input_per_s=_input_per_s(run, begin, end))
                rows.append(replace(row, **own.accounts(begin, end), **own.latencies(begin, end), **ratios))
        # what the end of input cuts off is judged by neither
        all_of_it = replace(known, **own.accounts(0, starts_ms[-2]))
        rows.append(_with_estimate(all_of_it, run, own))
    return rows


def _input_per_s(run: Run, begin: float, end: float) -> int:
    arrived = sum(int(np.count_nonzero((begin <= times) & (times < end))) for times in run.arrived.values())
    return round(1000 * arrived / (end - begin))


def _ratios(run: Run, query: str, begin: float, end: float) -> dict[str, float | None]:
    """Fields of a `Row`."""
    steady = [one for one in run.directives.values() if begin <= one.decided_at_ms < end]
    asked = [one.drop_ratio(query) for one in steady] or [0.0]
    own = speed.deviation(run.speeds, np.array([*sorted(float(one.decided_at_ms) for one in steady), end]))
    return {
        "drop_ratio": round(float(np.mean(asked)), 4),
        "drop_ratio_sd": round(float(np.std(asked)), 4),
        "speed_sd": own and round(own, 4),
    }


def ratios_over_time(run: Run) -> dict[str, list[tuple[float, float]]]:
    """By query, of every batch: when it was decided (s since the input began), and its drop ratio."""
    batches = sorted(run.directives.values(), key=lambda one: one.batch)
    return {
        query: [(round((one.decided_at_ms - run.began_ms) / 1000, 2), round(one.drop_ratio(query), 3)) for one in batches]
        for query in run.workload.bounds_ms
    }


def _with_estimate(row: Row, run: Run, own: Query) -> Row:
    """The last live estimate, and what it speaks of: all matches over its period."""
    last = next((one for one in reversed(run.audits.get("Estimate", [])) if one["query"] == row.query and one["recall"]), None)
    if last is None:
        return row
    end = last["time"].timestamp() * 1000
    true = own.between(own.true, end - last["period_ms"], end)
    lower, value, upper = (round(last["recall"][name], 4) for name in ("lower", "value", "upper"))
    if not true:
        return replace(row, estimate=(lower, value, upper))
    recall = round(len(true & own.found.keys()) / len(true), 4)
    return replace(row, estimate=(lower, value, upper), true_recall=recall, true_recall_in_interval=lower <= recall <= upper)
