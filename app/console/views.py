"""What pages show besides the JSON values: pictures, and which of many queries are on a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from app.console.drawing import drawing
from app.console.drawing import way as way_text
from app.console.figures import Figures, Plain
from app.console.plots import Line, Plot, Values, plot, shown_slots, sparkline
from app.console.words import duration, rate, share, short
from app.control.shown.history import SLOT_MS

ON_A_PAGE = 50
"""Queries: of a thousand, the worst come first."""
SPARK_SLOTS = 180
"""A quarter of an hour; less where the application is younger."""
LEAST_SPARKS = 12
"""Points, a quarter of a minute each."""


def of_overview(figures: Figures, page: int) -> dict[str, Any]:
    """Values for the overview's template."""
    told = figures.overview()
    queries, now = told["queries"], told["at_ms"]
    pages = max(1, -(-len(queries) // ON_A_PAGE))
    page = min(max(1, page), pages)
    shown = queries[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    rows = [{**query, "sparks": _sparks(query, figures.series(query["query"], now))} for query in shown]
    return {"told": told, "rows": rows, "page": page, "pages": pages, "plots": _of_all(figures.all_series(now), _ended(now))}


def of_query(told: Plain) -> dict[str, Any]:
    """Values for a query's template."""
    series = {name: np.array(values, np.float32) for name, values in told.get("last_hour", {}).items()}
    automaton = told.get("automaton")
    ways = {} if automaton is None else {state["state"]: [way_text(edge) for edge in state["edges"]] for state in automaton["states"]}
    return {
        "told": told,
        "plots": _of_query(told, series) if series else [],
        "drawing": Markup("") if automaton is None else drawing(automaton, told["query"]),
        "ways": ways,
    }


def _ended(now_ms: int) -> int:
    """When the newest slot that is shown was over."""
    return now_ms // SLOT_MS * SLOT_MS


def _flat(like: Values, value: float | None) -> Values:
    return np.full_like(like, np.nan if value is None else value)


def _sparks(query: Plain, series: dict[str, Values]) -> dict[str, Markup]:
    if query["status"] != "running":
        return {"latency": Markup(""), "drop": Markup("")}
    name, bound_ms = query["query"], query.get("latency", {}).get("bound_ms")
    latency = [Line("95th percentile", _thinned(series["latency_p95_ms"]))]
    if bound_ms is not None:
        latency.append(Line("bound", _flat(latency[0].values, bound_ms), "bound"))
    drop = [Line("drop ratio", _thinned(series["drop_ratio"]))]
    slots = shown_slots([drop[0].values, latency[0].values], LEAST_SPARKS, len(drop[0].values)) or LEAST_SPARKS
    dropped = bool(np.nansum(drop[0].values))
    return {
        "latency": sparkline(f"latency-{name}", f"Latency of {name}, last quarter of an hour", latency, slots, duration),
        "drop": sparkline(f"drop-{name}", f"Drop ratio of {name}, last quarter of an hour", drop, slots, share) if dropped else Markup(""),
    }


def _thinned(values: Values) -> Values:
    """The greatest of every three: there are fewer pixels."""
    threes = values[-SPARK_SLOTS:].reshape(-1, 3)
    return np.fmax.reduce(threes, axis=1)


def _of_all(series: dict[str, Values], now: int) -> list[Plot]:
    found = [
        plot("consumed", "Events read", [Line("read", series["consumed_per_s"]), Line("shed", series["shed_per_s"], "second")], now, rate),
        plot("batches", "Batch duration", [Line("batch", series["batch_ms"])], now, duration),
        plot("lag", "Records waiting", [Line("left behind by a batch", series["lag_records"])], now, short, least_top=10),
    ]
    return [one for one in found if one is not None]


def _of_query(told: Plain, series: dict[str, Values]) -> list[Plot]:
    now, bound_ms = _ended(told["at_ms"]), told.get("latency", {}).get("bound_ms")
    latency = [Line("95th percentile", series["latency_p95_ms"]), Line("median", series["latency_p50_ms"], "second")]
    bound = [] if bound_ms is None else [Line("bound", _flat(series["latency_p95_ms"], bound_ms), "bound")]
    capacity = [Line("capacity", series["capacity_per_s"], "bound")] if np.isfinite(series["capacity_per_s"]).any() else []
    found = [
        plot("latency", "Detection latency", [*latency, *bound], now, duration),
        plot("input", "Input rate", [Line("arriving", series["arrivals_per_s"]), *capacity], now, rate),
        plot(
            "drops",
            "Drop ratio",
            [Line("asked", series["drop_ratio"]), Line("done", series["dropped"], "second")],
            now,
            share,
            least_top=0.1,
        ),
        plot("found", "Composite events", [Line("found", series["composite_events_per_s"])], now, rate),
        plot("partial", "Partial matches", [Line("live", series["partial_matches"])], now, short, least_top=10),
        *(
            plot(
                name,
                f"Estimated {name}",
                [Line(name, series[name], "main", series[f"{name}_lower"], series[f"{name}_upper"])],
                now,
                share,
                least_top=1.0,
            )
            for name in ("recall", "precision")
        ),
    ]
    return [one for one in found if one is not None]
