"""Says what overload did to the real application, from `overload.json`: what was promised and where it holds, and a table per workload.

python -m ops.bench.overload.page        # writes ops/bench/overload.md and its pictures
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ops.bench.overload import judged
from ops.bench.overload.pictures import over_rates

HERE = Path(__file__).parents[1]
DEVIATION = 0.05
FORETOLD = 0.1
"""By so much a recall may miss what was foretold of it, less that of `random`."""
VERDICTS = 0.05
"""So many verdicts may be `UNVERIFIABLE`, those on true composite events among them, of as many as there are false ones."""
QUERIES = {
    "dear": "three quotes of a symbol within 12 s, each of three times the volume of the one before: every event is held against all partial matches of its symbol",
    "unbroken": "a quote of forty times the volume within 6 s, and none between them that forbids it: shedding can make up matches",
    "next-rise": "a large quote and the next one within 6 s that is a hundredth dearer (`skip-till-next-match`)",
    "always": "two very large quotes within 2 s; without a bound, so it must lose nothing",
}
REMARKS = {
    "engine": " `random`, `gspice` and `prefix` are of the version of the fifty-second session, at the capacity that was measured in the fifty-first on the same machine (23,007 events/s); `bl` and `espice` are of the forty-first's (28,981), `pspice` of an earlier one on its own engine. The same machine is up to 15 % slower in another quarter of an hour, which is half of the recall of `gspice` at 180 and 200 % (0048, *What room may cost*). What `cep evaluate` foretells of the three was not asked anew, so they are not among those that are compared with it.",
    "mixed": " `random`, `gspice` and `prefix` are of the version of the forty-seventh session, the others of the thirty-ninth's. `random` at 120 % is of a run of its own, an hour and a half behind the others: in theirs, tests ran beside it.",
}
"""By workload, what the figures do not say of themselves."""
FEW_LOST = 0.9995
"""A recall of this is one event that lay on the border between two phases."""
SHEDDERS = ("random", "bl", "espice", "gspice", "prefix", "pspice")

Row = Mapping[str, Any]
UNKNOWN = judged.Row("", "", "", "", None, 0).to_plain()

TOP = """# Overload, on the real application

Broker, registry and Spark `local[2]` on a machine with two cores, and the sender on the same two. The capacity is measured first; then one application per shedder gets 120 to 200 % of it for a minute each, a calm of 20 s before each, and at the end five times the capacity for 30 s. The same events without shedding say what there was to find, identity by identity.

```
python -m ops.bench.overload --workload {workloads} --shedder {shedders} --learn 500000 --keep FOLDER     # 25 minutes per workload and 13 to 16 per shedder
python -m ops.bench.overload.page                                                                  # this page, from overload.json
```

Latency is that of detection: from the broker's time of the last constituent to the broker's time of the composite event, from the phase's first second on. The ratio is the mean of all batches from the phase's eleventh second on, ± their standard deviation. Why the ratios are what they are, and what was tried: `ops/decisions/0048-control-measured.md`.
"""


def page(figures: Mapping[str, Any]) -> str:
    """The page, in Markdown.

    Args:
        figures: as `overload.json` has them.
    """
    runs: list[Row] = [{**UNKNOWN, **one} for one in figures["runs"]]  # fields of a later version may be missing
    rows = [one for one in runs if not one["forced"]]
    workloads = list(dict.fromkeys(one["workload"] for one in rows))
    parts = [TOP.format(workloads=" ".join(workloads), shedders=" ".join(SHEDDERS)), _promises(runs)]
    for workload in workloads:
        own = [one for one in rows if one["workload"] == workload]
        parts += [
            f"## {workload}\n\n{_asked_of(own)}{_capacities(own)}{REMARKS.get(workload, '')}\n\n![p99, ratio, recall and precision](overload-{workload}.png)\n",
            _latencies(own),
            _foretold(own),
        ]
    return "\n".join([*parts, _audits(runs)])


def _promises(runs: Sequence[Row]) -> str:
    phases = [one for one in runs if one["rate"] != "all" and not one["forced"]]
    steady = [one for one in phases if one["bound_ms"] and one["drop_ratio"] > 0 and one["rate"] != "burst"]
    whole = [one for one in runs if one["rate"] == "all"]
    forced = [one for one in whole if one["forced"]]
    told = [one for one in phases if one["bound_ms"] and one["p99_ms"] is not None]
    free = [one for one in phases if one["bound_ms"] is None and one["recall"] is not None]
    lines = [
        ("p99 is at most the bound, at every rate and in the burst", *_held(told, lambda one: one["p99_ms"] <= one["bound_ms"], _late)),
        ("queries without a bound lose nothing", *_held(free, lambda one: one["recall"] >= FEW_LOST, _recall)),
        (f"the ratio's standard deviation in steady overload is below {DEVIATION}", *_held(steady, lambda one: one["drop_ratio_sd"] < DEVIATION, _deviation)),
        ("the live estimate's interval contains the true recall", *_held([one for one in whole if one["true_recall_in_interval"] is not None], lambda one: one["true_recall_in_interval"], _name)),
        ("recall is better than that of `random` by what `cep evaluate` foretold, within 10 points (or by more)", *_held(_compared(phases), lambda one: one["better"] >= one["foretold"] - FORETOLD, _better)),
        *_verdicts([one for one in whole if not one["forced"]], ""),
        *(_verdicts(forced, " (`shoplifting`)") if forced else ()),
    ]  # fmt: skip
    return _table(("promise", "holds in", "not in"), lines)


def _verdicts(whole: Sequence[Row], of: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    false, without, confirmed, unsure = (
        sum(one[name] for one in whole)
        for name in ("false_positives", "false_positives_without_verdict", "wrongly_confirmed", "unverifiable")
    )
    return (
        (f"every false composite event has a verdict, and none is confirmed{of}", f"{false - without - confirmed:,} of {false:,}", ""),
        (
            f"verdicts `UNVERIFIABLE`, also on true ones, are at most {100 * VERDICTS:.0f} % of that{of}",
            f"{100 * unsure / max(1, false):.1f} %",
            "",
        ),
    )


def _table(names: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n" + "".join(f"| {' | '.join(one)} |\n" for one in lines)


def _by_shedder(names: Sequence[str], kinds: Mapping[tuple[str, str], Sequence[str]], cells: Mapping[tuple[str, str, str], str]) -> str:
    """A table with a line per rate and query, of which something is said first, and a column per shedder."""
    shedders = [one for one in SHEDDERS if any(shedder == one for _, _, shedder in cells)]
    lines = ([*said, *(cells.get((*kind, one), "") for one in shedders)] for kind, said in kinds.items())
    return _table([*names, *(f"`{one}`" for one in shedders)], lines)


def _held(rows: Sequence[Row], holds: Callable[[Row], bool], named: Callable[[Row], str]) -> tuple[str, str]:
    missed = [one for one in rows if not holds(one)]
    return f"{len(rows) - len(missed)} of {len(rows)}", "; ".join(map(named, missed))


def _name(one: Row) -> str:
    rate = "" if one["rate"] == "all" else f" {one['rate']}"
    return f"{one['workload']} `{one['shedder']}`{rate} {one['query']}"


def _late(one: Row) -> str:
    return f"{_name(one)} {one['p99_ms']:,.0f} ms"


def _recall(one: Row) -> str:
    return f"{_name(one)} {one['recall']:.3f}"


def _deviation(one: Row) -> str:
    return f"{_name(one)} {one['drop_ratio_sd']:.2f}"


def _better(one: Row) -> str:
    return f"{_name(one)} {one['better']:+.2f} (foretold {one['foretold']:+.2f})"


def _compared(phases: Sequence[Row]) -> list[Row]:
    """Rows of shedders beside `random`'s of the same capacity, of which both were foretold."""
    key = ("workload", "rate", "query", "capacity_per_s")
    chance = {tuple(one[name] for name in key): one for one in phases if one["shedder"] == "random"}
    compared = []
    for one in phases:
        other = chance.get(tuple(one[name] for name in key))
        if other is None or other is one or None in (one["foretold_recall"], other["foretold_recall"], one["recall"], other["recall"]):
            continue
        better = {"better": one["recall"] - other["recall"], "foretold": one["foretold_recall"] - other["foretold_recall"]}
        compared.append({**one, **better})
    return compared


def _asked_of(rows: Sequence[Row]) -> str:
    """What its queries ask for, a line each."""
    names = dict.fromkeys(one["query"] for one in rows)
    return "".join(f"* `{name}`: {QUERIES[name]}.\n" for name in names if name in QUERIES) + "\n"


def _capacities(rows: Sequence[Row]) -> str:
    by_capacity: dict[int | None, list[str]] = {}
    for one in rows:
        names = by_capacity.setdefault(one["capacity_per_s"], [])
        if one["shedder"] not in names:
            names.append(one["shedder"])
    told = (f"{capacity:,} events/s ({', '.join(f'`{one}`' for one in names)})" for capacity, names in by_capacity.items() if capacity)
    speeds = [one["speed_sd"] for one in rows if one["speed_sd"] is not None]
    speed = (
        f" Where it was noted, the processor's own speed deviates by {min(speeds):.2f} to {max(speeds):.2f} of its mean from batch to batch."
        if speeds
        else ""
    )
    return f"Capacity {'; '.join(told)}. p99 in ms (later than the bound: bold); where anything was shed, ratio ± deviation, recall.{speed}"


def _latencies(rows: Sequence[Row]) -> str:
    phases = [one for one in rows if one["rate"] != "all"]
    told = {
        query: sorted({one["bound_ms"] or 0 for one in rows if one["query"] == query})
        for query in dict.fromkeys(one["query"] for one in rows)
    }
    bounds = {query: f"{' or '.join(f'{one / 1000:g}' for one in ms)} s" if any(ms) else "no bound" for query, ms in told.items()}
    rates = dict.fromkeys(one["rate"] for one in phases)
    kinds = {(rate, query): (rate, f"`{query}`, {bound}") for rate in rates for query, bound in bounds.items()}
    return _by_shedder(("input", "query, bound"), kinds, {(one["rate"], one["query"], one["shedder"]): _cell(one) for one in phases})


def _cell(one: Row) -> str:
    if one["p99_ms"] is None:
        return f"nothing found, {one['drop_ratio']:.2f} ± {one['drop_ratio_sd']:.2f}"
    late = one["bound_ms"] is not None and one["p99_ms"] > one["bound_ms"]
    told = f"**{one['p99_ms']:,.0f}**" if late else f"{one['p99_ms']:,.0f}"
    if not one["drop_ratio"]:
        return told if one["recall"] is None or one["recall"] >= FEW_LOST else f"{told}, 0, {one['recall']:.3f}"
    recall = "nothing to find" if one["recall"] is None else f"{one['recall']:.2f}"
    return f"{told}, {one['drop_ratio']:.2f} ± {one['drop_ratio_sd']:.2f}, {recall}"


def _foretold(rows: Sequence[Row]) -> str:
    known = [one for one in rows if None not in (one["foretold_recall"], one["recall"]) and one["drop_ratio"] > 0]
    if not known:
        return ""
    cells = {(one["rate"], one["query"], one["shedder"]): f"{one['recall']:.2f} ({one['foretold_recall']:.2f})" for one in known}
    kinds = {(one["rate"], one["query"]): (one["rate"], f"`{one['query']}`") for one in known}
    return "Recall found, and in brackets what `cep evaluate` foretold from other events of the stream, in virtual time:\n\n" + _by_shedder(
        ("input", "query"), kinds, cells
    )


def _audits(runs: Sequence[Row]) -> str:
    counts = ("false_positives", "false_positives_without_verdict", "wrongly_confirmed", "unverifiable")
    lines = [
        (one["workload"], f"`{one['shedder']}`", f"`{one['query']}`", _interval(one), *(f"{one[name]:,}" for name in counts))
        for one in runs
        if one["rate"] == "all" and one["bound_ms"] and (one["estimate"] or one["false_positives"])
    ]
    names = ("workload", "shedder", "query", "live recall", "false", "without verdict", "confirmed", "unverifiable")
    return (
        "## Audits\n\nOf whole runs: the last live estimate of recall and the true one of its period; composite events that the run without shedding does not have, "
        "those of them without a verdict, those confirmed, and verdicts `UNVERIFIABLE`.\n\n" + _table(names, lines) + _forced(runs)
    )


def _forced(runs: Sequence[Row]) -> str:
    """Of runs whose ratio was set and not found by a watchdog."""
    return "".join(
        f"\n`{one['query']}` is the shipped query on the retail stream, for its many false composite events: too cheap to be overloaded by a sender on the same two cores, so its drop ratio is set "
        f"({one['drop_ratio']:.3f}) and no watchdog keeps its bound (p99 {one['p99_ms']:,.0f} ms); it is not counted in the promises on latency and on the ratio.\n"
        for one in runs
        if one["forced"] and one["rate"] != "all"
    )


def _interval(one: Row) -> str:
    if one["estimate"] is None:
        return "none"
    lower, value, upper = one["estimate"]
    true = "" if one["true_recall"] is None else f", true {one['true_recall']:.2f}"
    return f"{lower:.2f} to {upper:.2f} ({value:.2f}){true}"


def main() -> None:
    figures = json.loads((HERE / "overload.json").read_text())
    (HERE / "overload.md").write_text(page(figures))
    for workload in dict.fromkeys(one["workload"] for one in figures["runs"] if not one.get("forced")):
        over_rates(figures, workload).savefig(HERE / f"overload-{workload}.png", dpi=80)


if __name__ == "__main__":
    main()
