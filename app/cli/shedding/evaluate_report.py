"""The answers of `cep evaluate` as a table, as JSON and as plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from app.evaluation.contest import Standing, Terms


@dataclass(frozen=True, slots=True)
class Judged:
    """One query's contest.

    Attributes:
        query: its name.
        learned: events that shedders learned from.
        judged: events that they were judged by.
        true: composite events in these without shedding.
        left_out: by shedder, why it took no part.
    """

    query: str
    learned: int
    judged: int
    true: int
    terms: Terms
    standings: tuple[Standing, ...]
    left_out: Mapping[str, str]


_COLUMNS: dict[str, Callable[[Standing], str]] = {
    "shedder": lambda one: one.shedder,
    "rate": lambda one: f"{one.rate:.0%}",
    "dropped": lambda one: f"{one.dropped:.1%}",
    "recall": lambda one: f"{one.quality.recall:.2%}",
    "precision": lambda one: f"{one.quality.precision:.2%}",
    "lost": lambda one: f"{one.quality.true - one.quality.both:,}",
    "false": lambda one: f"{one.quality.found - one.quality.both:,}",
    "p50 ms": lambda one: f"{1000 * np.percentile(one.latency_s, 50):.0f}",
    "p99 ms": lambda one: f"{1000 * np.percentile(one.latency_s, 99):.0f}",
    "max ms": lambda one: f"{1000 * one.latency_s.max():.0f}",
    "late": lambda one: f"{one.late_share:.1%}",
    "ns/decision": lambda one: f"{one.decision_ns:.0f}",
}


def print_table(judged: Judged) -> None:
    """One row per shedder and rate."""
    terms = judged.terms
    title = (
        f"{judged.query}: learned from {judged.learned:,} events, judged by {judged.judged:,} with {judged.true:,} composite events; "
        f"bound {terms.bound_s:g} s, capacity {terms.capacity:,.0f}/s"
    )
    table = Table(title=title, title_justify="left", caption="late: events above the bound; times are virtual", caption_justify="left")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name == "shedder" else "right", no_wrap=True)
    last = ""
    for one in judged.standings:
        if last not in ("", one.shedder):
            table.add_section()
        last = one.shedder
        table.add_row(*(show(one) for show in _COLUMNS.values()))
    console = Console(width=max(140, Console().width))  # a narrow terminal breaks lines; columns that are cut off say nothing
    console.print(table)
    for name, why in judged.left_out.items():
        console.print(f"{name} took no part: {why}", highlight=False)
    if not judged.true:
        console.print("the query finds nothing in what was judged: recall says nothing", highlight=False)


def as_json(judged: Judged) -> dict[str, Any]:
    """All figures."""
    terms = judged.terms
    return {
        "query": judged.query,
        "events_learned": judged.learned,
        "events_judged": judged.judged,
        "composite_events": judged.true,
        "bound_s": terms.bound_s,
        "safety": terms.safety,
        "capacity_per_s": terms.capacity,
        "seed": terms.seed,
        "fixed": terms.fixed,
        "standings": [
            {
                "shedder": one.shedder,
                "rate": one.rate,
                "asked_ratio": one.asked,
                "dropped": one.dropped,
                "recall": one.quality.recall,
                "precision": one.quality.precision,
                "false_negatives": one.quality.false_negatives,
                "false_positives": one.quality.false_positives,
                "latency_s": {name: float(np.percentile(one.latency_s, p)) for name, p in (("p50", 50), ("p99", 99), ("max", 100))},
                "late_share": one.late_share,
                "decision_ns": one.decision_ns,
            }
            for one in judged.standings
        ],
        "left_out": dict(judged.left_out),
    }
