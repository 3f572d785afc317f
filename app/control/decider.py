"""What the directive of a batch says: asks those who decide one thing each, and puts it together with what they want to remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.bucket.hold import Progress
from app.config.settings import Settings
from app.control.arrivals.inflow import Incoming
from app.control.audit_reports import shed_reports
from app.control.law.decisions import Decisions
from app.control.law.levels import Levels
from app.control.law.observations import Done, Streams, observation_of
from app.control.law.state_limits import state_shares
from app.control.law.watchdog import Watchdog
from app.control.law.watched import WatchedQuery
from app.control.messages.directives import Directive, Frozen, QueryShedding
from app.control.messages.reached import reached
from app.control.messages.shed_reports import ShedReport
from app.control.messages.totals import BatchTotals
from app.control.running_catalog import RunningCatalog
from app.control.selection import Sequences
from app.control.shown.quality import Quality
from app.query.plan import Catalog, Plan


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of the batches before one.

    Attributes:
        directive: of the batch before, if it is still known.
        totals: of that batch.
        earlier: of the one before that.
    """

    directive: Directive | None
    totals: BatchTotals
    earlier: BatchTotals


class Decider:
    """Decides batch by batch. Not for several threads at once: whoever has it keeps them apart.

    Args:
        settings: of the application.
        quality: what shedding costs, as directives tell it.

    Attributes:
        watchdog: of the running catalog; another one with every catalog.
        announced: in how many directives the coming deployment has been named.
    """

    def __init__(self, settings: Settings, quality: Quality) -> None:
        self._settings = settings
        self._quality = quality
        self._most_records = settings.kafka.max_offsets_per_trigger
        self.watchdog = Watchdog((), settings.watchdog, self._most_records)
        self._levels = Levels()
        self._decisions = Decisions()
        self._sequences: Sequences | None = None
        self._decided: RunningCatalog | None = None
        """By which the newest directive was decided."""
        self._coming, self.announced = "", 0

    def limit_batches(self, records: int) -> None:
        """Says how many records a batch takes at most; to be told before a catalog is opened."""
        self._most_records = records

    def announce(self, deployment: str) -> None:
        """Directives name this deployment as the coming one, until it is opened."""
        self._coming, self.announced = deployment, 0

    def open(self, running: RunningCatalog, sequences: Sequences, memory: Mapping[str, Any], *, first: bool) -> None:
        """Decides by another catalog from now on.

        Args:
            running: the catalog.
            sequences: made for it, as nobody must wait for that.
            memory: of the checkpoint's last directive.
            first: whether the application begins: all goes on from the memory, not from the catalog before.
        """
        watched = [WatchedQuery.of(plan, self._settings.watchdog.catch_up) for plan in running.catalog.current]
        watchdog = Watchdog(watched, self._settings.watchdog, self._most_records)
        watchdog.restore(memory.get("watchdog", {}) if first else self.watchdog.snapshot())
        if first:
            self._levels.restore(memory.get("levels", {}))
            self._decisions.restore(memory.get("decisions", {}))
            self._decided = running.before
        else:
            watchdog.go_on()
        sequences.restore(memory.get("selection", {}) if self._sequences is None else self._sequences.snapshot())
        self.watchdog, self._sequences, self._coming = watchdog, sequences, ""

    def observe(self, done: Done, running: RunningCatalog | None, streams: Streams) -> list[str]:
        """Takes in a batch that is over.

        Args:
            done: the batch.
            running: the catalog; None: none runs yet.
            streams: which topics and sources are which.

        Returns:
            streams whose evaluation sequence is another one now.
        """
        rearranged = [] if self._sequences is None else self._sequences.observe(done.totals.selection)
        plans, deployment = ((), None) if running is None else (running.catalog.current, running.deployment)
        self.watchdog.observe(observation_of(done, plans, streams, self._levels.reference, deployment))
        return rearranged

    def decide(self, running: RunningCatalog, past: Past, incoming: Incoming) -> Frozen:
        """The directive of a batch that begins, and what to go on from after a restart.

        Args:
            running: the catalog.
            past: the batches before.
            incoming: what is known of its input.
        """
        planned, silence, before, totals = incoming.planned, incoming.silence, past.directive, past.totals
        self.watchdog.plan(planned)
        plans = _plans(running.catalog)
        known = Progress(incoming.greatest_times, frozenset(incoming.sources), frozenset(silence.idle), silence.stream_times)
        shedding = self._shedding(plans, past)
        decisions = self._decisions.reports(
            planned.batch, planned.at_ms, self.watchdog.forecast, self.watchdog.ratios, plans, self._plans_before()
        )
        # a batch that `cep checkpoint skip` has left out: what it was to tell nobody has told
        skipped = Directive(-1) if before is None or totals.reports else before
        directive = Directive(
            batch=planned.batch,
            catalog_version=running.catalog.version,
            deployment=running.deployment,
            decided_at_ms=planned.at_ms,
            seed=self._settings.audit.seed,
            shedding=shedding,
            greatest_times=dict(incoming.greatest_times),
            sources=incoming.sources,
            idle=silence.idle,
            stream_times=silence.stream_times,
            schema_ids=running.schema_ids,
            shed_reports=skipped.shed_reports or self._shed_reports(before, totals, running),
            estimates=(*skipped.estimates, *self._quality.reports(planned.batch, planned.at_ms, plans)),
            decisions=(*skipped.decisions, *decisions),
            selection={} if self._sequences is None else self._sequences.orders(),
            coming=self._coming,
            reached=reached(before, known, incoming.topics),
            state_shares=state_shares(plans, before, totals, past.earlier),
        )
        self.announced += bool(self._coming)
        self._decided = running
        return Frozen(directive, self._memory(incoming))

    def _shedding(self, plans: Mapping[str, Plan], past: Past) -> dict[str, QueryShedding]:
        forecast = self.watchdog.forecast
        unshed = None if forecast is None else round(forecast.unshed_latency_ms, 1)
        self._levels.see({} if past.directive is None else past.directive.shedding, past.totals, plans)
        ratios = self.watchdog.ratios
        return {query: self._levels.orders(plans[query], ratio, past.totals, unshed) for query, ratio in ratios.items() if query in plans}

    def _shed_reports(self, before: Directive | None, totals: BatchTotals, running: RunningCatalog) -> tuple[ShedReport, ...]:
        return () if before is None else shed_reports(before, totals, self._plans_of(before, running))

    def _plans_of(self, directive: Directive, running: RunningCatalog) -> dict[str, Plan]:
        """What ran in the batch before: queries may have changed since, or be gone."""
        known = running if self._decided is None or self._decided.deployment != directive.deployment else self._decided
        return _plans(known.catalog)

    def _plans_before(self) -> dict[str, Plan]:
        """Of the newest directive."""
        return {} if self._decided is None else _plans(self._decided.catalog)

    def _memory(self, incoming: Incoming) -> dict[str, Any]:
        memory = {
            "watchdog": self.watchdog.snapshot(),
            "idle": incoming.memory,
            "levels": self._levels.snapshot(),
            "decisions": self._decisions.snapshot(),
            "quality": self._quality.snapshot(),
        }
        return memory if self._sequences is None else {**memory, "selection": self._sequences.snapshot()}


def _plans(catalog: Catalog) -> dict[str, Plan]:
    return {plan.name: plan for plan in catalog.current}
