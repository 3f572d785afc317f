"""What is known of the running queries beside what batches count: how much arrives, how much could be done, what shedding costs."""

from __future__ import annotations

from collections.abc import Iterable

from app.control.law.watchdog import Forecast
from app.control.shown.history import Standing
from app.control.shown.quality import Quality
from app.query.plan import Plan


def standings(plans: Iterable[Plan], forecast: Forecast | None, quality: Quality) -> dict[str, Standing]:
    """By query.

    Args:
        plans: of the running queries.
        forecast: the watchdog's latest; None before the first.
        quality: knows recall and precision.
    """
    capacities: dict[tuple[tuple[str, ...], float], float | None] = {}
    found = {}
    for plan in plans:
        bound_ms, capacity = plan.shedding.latency_bound_ms, None
        if forecast is not None and bound_ms is not None:
            key = plan.streams, forecast.free_ms.get(plan.name, plan.shedding.safety * bound_ms)
            if key not in capacities:  # of many queries of one kind it is one number
                capacities[key] = forecast.outlook.capacity_per_s(*key)
            capacity = capacities[key]
        arrivals = None if forecast is None else forecast.outlook.arrivals_per_s(plan.streams)
        found[plan.name] = Standing(arrivals, capacity, quality.estimates(plan.name))
    return found
