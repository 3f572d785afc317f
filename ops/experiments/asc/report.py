"""Tables of verdicts and figures, as Markdown."""

from __future__ import annotations

from typing import Any

from ops.experiments.asc.figures import Figures, deviation, mean
from ops.experiments.asc.verdicts import Claim

SCHEMES = (
    "SEQ best",
    "Macro, all known",
    "Macro",
    "Hybrid",
    "Macro (ours)",
    "Hybrid (ours)",
    "Ticket Routing",
    "Ticket Routing, single query",
    "random order",
    "SEQ worst",
    "naive, row loop",
    "naive, numpy",
)


def as_json(claims: list[Claim]) -> list[dict[str, Any]]:
    """Claims with their verdicts."""
    return [
        {
            "figure": claim.figure,
            "says": claim.says,
            "on": claim.on,
            "effect": claim.effect,
            "limit": claim.limit,
            "loose": claim.loose,
            "mean": round(claim.mean, 4),
            "sd": round(claim.deviation, 4),
            "interval": [round(end, 4) for end in claim.interval()],
            "holds in seeds": claim.holding,
            "seeds": len(claim.values),
            "verdict": claim.verdict(),
        }
        for claim in claims
    ]


def verdicts(claims: list[Claim]) -> str:
    """A row per claim."""
    lines = [
        "| figure | claim | on | number | limit | mean ± sd | 95 % of the mean | seeds | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for claim in claims:
        low, high = claim.interval()
        loose = f" ({claim.loose:g})" if claim.loose > claim.limit else ""
        lines.append(
            f"| {claim.figure} | {claim.says} | {claim.on} | {claim.effect} | {claim.limit:g}{loose} | {claim.mean:.3f} ± {claim.deviation:.3f} |"
            f" {low:.3f} … {high:.3f} | {claim.holding}/{len(claim.values)} | **{claim.verdict()}** |"
        )
    return "\n".join(lines) + "\n"


def tables(figures: Figures) -> str:
    """A table per figure of the paper and measure, mean ± standard deviation over seeds."""
    wanted = {
        6: ("cost", "constructs needed", "ns per event", "ms per search", "ranges tested", "matched", "deviation of ones"),
        7: ("cost", "deviation of ones"),
        8: ("cost", "micro ratio", "relative cost", "relative constructs needed", "deviation of ones"),
        9: ("cost", "excess", "excess before", "excess after", "rearrangements", "planning, ms"),
    }
    return "\n".join(
        _table(figures, number, measure) for number, measures in wanted.items() if figures.workloads(number) for measure in measures
    )


def _table(figures: Figures, number: int, measure: str) -> str:
    columns = list(dict.fromkeys((key.on, key.x) for key in figures.values if (key.figure, key.measure) == (number, measure)))
    schemes = list(dict.fromkeys(key.scheme for key in figures.values if (key.figure, key.measure) == (number, measure)))
    schemes.sort(key=lambda scheme: SCHEMES.index(scheme) if scheme in SCHEMES else -1)
    title = f"Figure {number}: {measure}"
    lines = [f"{title}\n", "| | " + " | ".join(f"{on} {x:g}" if x else on for on, x in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for scheme in schemes:
        cells = [_cell(figures, number, on, scheme, measure, x) for on, x in columns]
        lines.append(f"| {scheme} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(figures: Figures, number: int, on: str, scheme: str, measure: str, x: float) -> str:  # noqa: PLR0917
    try:
        values = figures.of(number, on, scheme, measure, x)
    except KeyError:
        return ""
    digits = 0 if mean(values) >= 100 else 3
    return f"{mean(values):.{digits}f} ± {deviation(values):.{digits}f}"
