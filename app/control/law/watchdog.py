"""Latency watchdogs: how much each query must shed so that it stays below its own latency bound, and not more.

A pure state machine: finished batches in (`observe`), planned ones in (`plan`), drop ratios out; the clock is in what it is told. See `ops/decisions/0037-two-loops.md`.

**What is controlled.** All queries share a batch. An event that arrives just after a batch was planned waits for that batch and then for its own, so its latency is what two batches
take, and a batch may take half of the *plateau* (``safety * bound``, less what is measured of waiting that batches do not explain, and less a margin where more than few events are late all the same, and as much room as batches miss; see `app.control.law.lateness`).

**The law** (`shedding.overload`). The ratio is ``1 - capacity / input``: the input is what arrives while a batch of the allowed length runs, with what waits beyond that spread over some batches; the capacity is what
such a batch has left for it. So a steady overload has a steady ratio whatever single batches take.

**Admission.** The number of records is known when a batch is planned, so the first batch of a burst is decided by what is in it: it may take what is left of the bound for its oldest events, and not less than an
ordinary batch. Events that are late already play no part: nothing helps them any more.

**Left alone.** Where the rate is one that can be done without shedding, a backlog that is gone within two bounds by itself (a neighbour took the processor for some seconds) is nobody's reason to shed.

**Who sheds** is said in `app.control.law.sharing`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter, itemgetter
from typing import Any, Literal

import numpy as np

from app.config.settings import Watchdog as WatchdogSettings
from app.control.law.costs import BatchCost, CostModel, fit_costs, pace_of, scatter_of, trust_in
from app.control.law.lateness import late_share, learn_margins
from app.control.law.outlook import Outlook
from app.control.law.query_costs import QueryCosts
from app.control.law.running import Running, remembered, smoothed
from app.control.law.settling import Strain, settle
from app.control.law.sharing import Goal, Ratios, Shared, next_step, shared_out
from app.control.law.watched import BatchObservation, PlannedBatch, WatchedQuery
from shedding.overload import Share

LARGEST_OFFSET = 0.25
"""Of the plateau: measured waiting that batches do not explain is believed up to here; beyond, producers' clocks are wrong, or events wait for their watermark."""
MOST_TAKEN = 0.5
"""Of the plateau, by waiting and margins together: where they want more (a small `safety` beside a machine that stalls), what is left must still be something that batches can be held to."""
CLEARLY = 0.9
"""Of what a batch may take: a rate that needs no more is no overload, and shedding ends at once. Nearer to the border it falls in steps: the border is known as well as batches can be foretold."""
KNOWN_BATCHES = 8
"""From here on the model can tell a batch that took too long from one that it knows nothing of."""
FULL = 0.95
"""Of the largest batch: from here on a batch may have left records behind."""
FORMAT = 2
"""Of snapshots."""

CostPart = Literal["fixed", "ingress", "hand-over", "matching"]


@dataclass(frozen=True, slots=True)
class Forecast:
    """Why the ratios are as they are; for metrics, reports and `/queries`.

    Attributes:
        waiting: records that wait, the batch's own among them.
        latency_ms: of the batch's oldest event, at the ratios chosen.
        beyond: queries whose bounds cannot be kept, as far as it has held for some decisions.
        bottleneck: what most of the batch's time would go to without shedding.
        outlook: what was known of the batch.
        free_ms: by query that sheds, what of its bound two coming batches may take.
    """

    waiting: float
    rate_per_s: float
    unshed_latency_ms: float
    latency_ms: float
    beyond: frozenset[str]
    costs: CostModel
    bottleneck: CostPart
    outlook: Outlook
    free_ms: Mapping[str, float]

    @property
    def in_reach(self) -> bool:
        """Whether all bounds can be kept."""
        return not self.beyond


class Watchdog:
    """Watches all queries of the application: each has its bound and its costs, and they share batches.

    Args:
        queries: all queries, shedding or not.
        settings: steps, windows; see `app.config.settings.Watchdog`.
        largest_batch: most records that a batch takes.
    """

    def __init__(self, queries: Sequence[WatchedQuery], settings: WatchdogSettings, largest_batch: int) -> None:
        self._queries = {watched.query: watched for watched in queries}
        self._settings = settings
        self._largest_batch = largest_batch
        self._batches: deque[BatchCost] = deque(maxlen=settings.cost_window)
        self._shedding = tuple(watched for watched in queries if watched.sheds)
        judged = {watched.query for watched in self._shedding if watched.judged}
        most = {watched.query: watched.max_drop_ratio for watched in self._shedding}
        in_place = {watched.query for watched in self._shedding if watched.in_place}
        windows = {watched.query: watched.window_ms for watched in self._shedding if watched.window_ms is not None}
        self._costs = QueryCosts({watched.query: watched.streams for watched in self._shedding}, judged, most, in_place, windows)
        self._running = Running(behind=self._complete())
        self._handed = list(self._running.behind)
        self._seen = 0
        self._decided_at_ms = -(10**15)
        self._begins = True
        self._forecast: Forecast | None = None
        self._model: CostModel | None = None

    @property
    def ratios(self) -> dict[str, float]:
        """The drop ratios of the batch that was planned last, beyond 1 where events go as well as partial matches; queries that keep everything are missing."""
        return dict(self._running.ratios)

    @property
    def forecast(self) -> Forecast | None:
        """The prediction behind `ratios`; None before the first decision."""
        return self._forecast

    def observe(self, seen: BatchObservation) -> None:
        """Takes a finished batch into account. Batches that were seen already (a repeated report) change nothing."""
        running = self._running
        if seen.batch <= running.last_batch:
            return
        self._seen += 1
        known = running.last_batch >= 0
        period = seen.planned_at_ms - running.last_planned_ms if known else 0
        if known and period > 0 and not self._begins:
            running.learn_arrivals(seen.arrived, seen.consumed, period)
        ordinary = known and seen.remaining == 0 and not self._begins
        waited = max(0.0, min(period, running.last_duration_ms)) if known else 0.0  # clocks may step back
        explained = waited + seen.duration_ms
        if seen.oldest_broker_ms is not None:
            measured = seen.planned_at_ms + seen.duration_ms - seen.oldest_broker_ms
            running.lag_ms = max(0.0, seen.planned_at_ms - seen.oldest_broker_ms)
            if ordinary:
                running.offset_ms = smoothed(running.offset_ms, max(0.0, min(measured - explained, 60_000.0)))
        self._begins = False
        running.last_batch, running.last_planned_ms, running.last_duration_ms = seen.batch, seen.planned_at_ms, seen.duration_ms
        running.last_arrived, running.remaining = dict(seen.arrived), float(seen.remaining)
        warm = self._seen > self._settings.warm_up_batches
        on_average = waited / 2 + seen.duration_ms if ordinary else None
        if seen.of_catalog:
            self._costs.learn(seen.queries, seen.consumed, seen.shipped + seen.shed, on_average, warm=warm, period_ms=max(0, period))
        if warm:
            running.learn_missed(seen.batch, seen.duration_ms)
            self._learn_margins(seen, explained)
            work = max(0.0, sum(one.work_ms for one in seen.queries.values()))
            cost = BatchCost(sum(seen.consumed.values()), seen.shipped, work, seen.duration_ms)
            if len(self._batches) >= KNOWN_BATCHES:
                known_batches = list(self._batches)
                model = self._model or fit_costs(known_batches)
                expected = pace_of(known_batches, model) * model.duration_ms(*cost.features[1:])
                cost = replace(cost, trust=trust_in(cost.duration_ms, expected, scatter_of(known_batches, model)))
            self._batches.append(cost)

    def plan(self, planned: PlannedBatch) -> None:
        """Decides the ratios of a batch that is about to begin."""
        running = self._running
        since_ms = planned.since_ms
        if since_ms is None:
            since_ms = planned.at_ms - running.begun_at_ms if running.begun_at_ms else 1.0
        since_ms = max(1.0, since_ms)
        running.plan(planned.batch, planned.at_ms)
        if running.last_batch < 0:
            return
        if 0 <= planned.at_ms - self._decided_at_ms < self._settings.interval:  # clocks may step back
            running.ratios = dict(running.steady)  # what the batch before needed for itself is its own
            return
        model = self._model = fit_costs(list(self._batches))
        decided_after_ms, self._decided_at_ms = max(0, planned.at_ms - self._decided_at_ms), planned.at_ms
        outlook = self._outlook(planned, model, since_ms)
        self._catch_up(outlook)
        goals, shares = self._goals(outlook), self._shares(outlook)
        shared = shared_out(goals, shares)
        running.learn_reach(shared.beyond)
        self._settle(shared, outlook, shares, decided_after_ms)
        admitted = shared_out(goals, shares, attrgetter("admission"), running.steady).ratios
        running.ratios = outlook.worthwhile({**running.steady, **self._in_steps(admitted)})
        self._forecast = self._foreseen(outlook, goals)
        running.expected_ms = self._forecast.latency_ms - outlook.age_ms

    def snapshot(self) -> dict[str, Any]:
        """Everything that decisions depend on, as JSON values."""
        costs = [[one.consumed, one.shipped, round(one.work_ms, 3), round(one.duration_ms, 3), one.trust] for one in self._batches]
        of_matches = [name for name, watched in self._queries.items() if watched.sheds and watched.of_matches]
        return {
            "format": FORMAT,
            "running": asdict(self._running),
            "batches": costs,
            "costs": self._costs.snapshot(),
            "of_matches": of_matches,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Goes on from a snapshot; the warm-up starts again. Of one that an earlier version wrote, the ratios."""
        known = {name for name, watched in self._queries.items() if watched.sheds}
        running, complete = snapshot.get("running", {}), self._complete()
        before = snapshot.get("costs", {}).get("queries", {}).keys() if "of_matches" in snapshot else ()
        changed = {name for name in known.intersection(before) if self._queries[name].of_matches != (name in snapshot["of_matches"])}
        if snapshot.get("format") == FORMAT:
            self._running = remembered(Running, running)
            self._batches.extend(BatchCost(*values[: len(fields(BatchCost))]) for values in snapshot["batches"])
            self._costs.restore(snapshot["costs"], changed)
            self._handed = [query for query in self._running.behind if query in complete]
        self._running.behind = complete  # there was an outage, of whatever length
        ratios, known = running.get("ratios", {}), known - changed  # of something else
        self._running.ratios = {query: ratio for query, ratio in ratios.items() if query in known}
        self._running.steady = {query: ratio for query, ratio in running.get("steady", ratios).items() if query in known}
        self._running.aimed = {query: ratio for query, ratio in self._running.aimed.items() if query in known}
        self._running.out_of_reach = [query for query in self._running.out_of_reach if query in known]
        self._running.settled = 0

    def go_on(self) -> None:
        """The catalog has changed, the run goes on: there was no outage. The first batches warm up all the same: what is new is loaded, and met for the first time."""
        self._begins = False
        self._running.behind = list(self._handed)

    def _complete(self) -> list[str]:
        """Queries that are to be complete after an outage."""
        return [one.query for one in self._shedding if one.catch_up == "complete"]

    def validate(self) -> None:
        """Raises AssertionError when an invariant is broken; tests call it after every step."""
        limits = {name: watched.most for name, watched in self._queries.items() if watched.sheds}
        for query, ratio in self._running.ratios.items():
            if not 0 < ratio <= limits.get(query, 0.0) + 1e-9:
                raise AssertionError(f"ratio {ratio} of {query} outside (0, {limits.get(query, 0.0)}]")
        if not self._settings.enabled and self._running.ratios:
            raise AssertionError("shedding although the watchdog is disabled")

    def _outlook(self, planned: PlannedBatch, model: CostModel, since_ms: float) -> Outlook:
        running = self._running
        came = {stream: rate * since_ms for stream, rate in running.rates.items()}
        if planned.records is None:  # what the last batch left behind, and what came since
            more = 1 + running.remaining / max(1.0, sum(came.values()))
            waiting = {stream: count * more for stream, count in came.items()}
            shrunk = min(1.0, self._largest_batch / max(1.0, sum(waiting.values())))
            records = {stream: count * shrunk for stream, count in waiting.items()}
        else:
            records = {stream: float(count) for stream, count in planned.records.items()}
            full = sum(records.values()) >= FULL * self._largest_batch
            if not full and running.remaining == 0:
                running.learn_planned(records, since_ms)
            there = running.remaining + sum(came.values())
            more = max(1.0, there / max(1.0, sum(records.values()))) if full else 1.0
            waiting = {stream: count * more for stream, count in records.items()}
        age_ms = since_ms if self._begins or running.remaining > 0 else min(since_ms, max(1.0, running.last_duration_ms))
        if running.remaining > 0:
            age_ms = max(age_ms, running.lag_ms)
        tightest = min((one.latency_bound_ms for one in self._shedding if one.latency_bound_ms is not None), default=0)
        return Outlook(
            self._costs,
            model,
            pace_of(list(self._batches), model),
            records,
            waiting,
            dict(running.rates),
            age_ms,
            self._largest_batch,
            age_ms if age_ms > tightest else 0.0,
        )

    def _catch_up(self, outlook: Outlook) -> None:
        """Queries that are to be complete after an outage are behind until all that waits can be done within their bound, or no more waits than ever."""
        if self._running.behind:
            shortest = min((one.duration_ms for one in self._batches), default=0.0)
            usual = 2 * shortest * sum(self._running.rates.values())
            if self._running.remaining == 0 and not self._begins and 0 < sum(outlook.waiting.values()) <= usual:
                self._running.behind = []
            done_ms = outlook.age_ms + outlook.unshed_ms(outlook.waiting)
            self._running.behind = [query for query in self._running.behind if done_ms > (self._queries[query].latency_bound_ms or 0)]

    def _goals(self, outlook: Outlook) -> list[Goal]:
        """The bounds of all queries that shed now, the tightest first."""
        by_bound: dict[tuple[float, int], list[str]] = {}
        if self._settings.enabled:
            for one in self._shedding:
                if one.latency_bound_ms is not None and one.query not in self._running.behind:
                    by_bound.setdefault((one.safety * one.latency_bound_ms, one.latency_bound_ms), []).append(one.query)
        goals = []
        for (plateau_ms, bound_ms), queries in by_bound.items():
            taken_ms = max(map(self._offset_ms, queries)) + self._running.margins.get(str(bound_ms), 0.0)
            taken_ms = min(taken_ms, MOST_TAKEN * plateau_ms)
            settled_ms, latest_ms = plateau_ms - taken_ms, bound_ms - taken_ms
            missed = self._running.missed * self._running.learn_overload(bound_ms, outlook.beyond(settled_ms))
            free_ms = outlook.free_ms(queries, settled_ms, latest_ms, missed, self._running.steady)
            goals.append(outlook.goal(queries, settled_ms, latest_ms, free_ms))
        return sorted(goals, key=lambda goal: goal.plateau_ms)

    def _offset_ms(self, query: str) -> float:
        """What is measured of waiting that batches do not explain, as far as it is believed."""
        watched = self._queries[query]
        return min(
            max(self._running.offset_ms, self._costs[query].offset_ms), LARGEST_OFFSET * watched.safety * (watched.latency_bound_ms or 0)
        )

    def _learn_margins(self, seen: BatchObservation, oldest_ms: float) -> None:
        """Takes into account what was late, for bounds that somebody shed for; where one cannot be kept, or the ratios have not come yet to where they are to be, that is no matter of margins. ``oldest_ms`` is how late the batch's first event was, as far as batches explain it."""
        more_ms: dict[int, float] = {}
        for one in self._shedding:
            own, bound_ms = seen.queries.get(one.query), one.latency_bound_ms
            if own is not None and own.asked > 0 and bound_ms is not None:
                more_ms[bound_ms] = max(more_ms.get(bound_ms, 0.0), self._offset_ms(one.query))
        late = {bound_ms: late_share(oldest_ms + more, seen.duration_ms + more, bound_ms) for bound_ms, more in more_ms.items()}
        steady = self._running.in_reach and self._running.settled > 0
        learn_margins(self._running.margins, late if steady else dict.fromkeys(late, 0.0))

    def _shares(self, outlook: Outlook) -> dict[str, Share]:
        """What each query saves when all of its candidates go."""
        saved = np.maximum(outlook.saved_ms(np.ones(len(self._costs.queries))), 0.0)
        return {
            query: Share(own, self._queries[query].weight, self._queries[query].most)
            for query, own in zip(self._costs.queries, saved.tolist(), strict=True)
        }

    def _settle(self, shared: Shared, outlook: Outlook, shares: Mapping[str, Share], since_ms: float) -> None:
        """Goes some of the way to the ratios that are wanted; see `app.control.law.settling`."""
        wanted = shared.ratios
        length_ms = outlook.length_ms(min((goal.free_ms for goal in shared.goals), default=1.0))
        clear = not any(wanted.values()) and outlook.unshed_ms(outlook.during(length_ms)) <= CLEARLY * length_ms
        strain = Strain(0.0, 0.0, 1.0)
        if shared.goals:
            held, worst = max(((goal.excess(self._running.steady), goal) for goal in shared.goals), key=itemgetter(0))
            least = worst.excess({query: share.most for query, share in shares.items()})
            strain = Strain(held, min(1.0, least), worst.plateau_ms)
        settle(self._running, wanted, strain, self._settings, of_matches=self._costs.of_matches, since_ms=since_ms, clear=clear)
        self._running.aimed = outlook.worthwhile(self._running.aimed)
        self._running.steady = self._in_steps(self._running.aimed)

    def _in_steps(self, ratios: Ratios) -> dict[str, float]:
        """In steps; without those that are nothing."""
        step = self._settings.smallest_step
        limited = {query: min(next_step(ratio, step), self._queries[query].most) for query, ratio in ratios.items()}
        return {query: round(ratio, 6) for query, ratio in sorted(limited.items()) if ratio > 0}

    def _foreseen(self, outlook: Outlook, goals: Sequence[Goal]) -> Forecast:
        model, load, none = outlook.model, outlook.batch, self._costs.rows({})
        taken = load.taken(none)
        parts: dict[CostPart, float] = {
            "fixed": model.fixed_ms,
            "ingress": model.per_consumed_ms * load.records,
            "hand-over": model.per_shipped_ms * taken.shipped,
            "matching": model.per_work * taken.work_ms,
        }
        return Forecast(
            sum(outlook.waiting.values()),
            outlook.rate * 1000,
            outlook.age_ms + outlook.duration_ms(outlook.waits, none),
            outlook.age_ms + outlook.duration_ms(load, self._costs.rows(self._running.ratios)),
            frozenset(self._running.out_of_reach),
            model,
            max(parts, key=lambda part: parts[part]),
            outlook,
            {query: goal.free_ms for goal in goals for query in goal.queries},
        )
