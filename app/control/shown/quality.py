"""What shedding costs each query: recall and precision over the last minutes, from what owners count (`app.audit`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.audit.estimates import Estimate, precision_of_verdicts, recall_of_sample
from app.audit.sample import GROUPS
from app.control.messages.directives import Directive
from app.control.messages.shed_reports import QualityReport
from app.control.messages.totals import BatchTotals
from app.control.running_catalog import RunningCatalog
from app.observe.metrics import Metrics
from app.query.plan import Plan

PERIOD_MS = 10 * 60_000
"""What is older says nothing of now."""
SLOT_MS = 60_000
FORMAT = 1
"""Of what is remembered of them."""
METRICS = {"recall": "cep_shed_recall_estimate_ratio", "precision": "cep_shed_precision_estimate_ratio"}


@dataclass
class _Slot:
    """The counts of one minute."""

    number: int
    sample: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, GROUPS)))
    found: int = 0
    refuted: int = 0
    unverifiable: int = 0
    shed: bool = False

    @cached_property
    def finished(self) -> list[float]:
        """`to_plain` of a minute that is over: each batch asks for all of them."""
        return self.to_plain()

    def to_plain(self) -> list[float]:
        """For JSON, short: a sample that found nothing is left out, and most counts are whole."""
        counts = [int(one) if one.is_integer() else one for one in self.sample.ravel().tolist()] if self.sample.any() else []
        return [self.number, self.found, self.refuted, self.unverifiable, int(self.shed), *counts]

    @staticmethod
    def from_plain(plain: Sequence[float]) -> _Slot:
        """The slot that `to_plain` was told of."""
        number, found, refuted, unverifiable, shed, *counts = plain
        sample = np.array(counts or [0.0] * (2 * GROUPS), np.float64).reshape(2, GROUPS)
        return _Slot(int(number), sample, int(found), int(refuted), int(unverifiable), bool(shed))


def _plain(slots: Sequence[_Slot]) -> list[list[float]]:
    """Of one query; only the newest minute is still counted."""
    *over, newest = slots
    return [*(slot.finished for slot in over), newest.to_plain()]


class Quality:
    """Counts by query and minute. What is known of a query is forgotten when it becomes another one (`app.query.planning.fingerprint`): it would have found something else."""

    def __init__(self) -> None:
        self._deployment = ""
        self._fingerprints: dict[str, str] = {}
        self._slots: dict[str, deque[_Slot]] = {}
        self._reported_ms = 0
        self._shown: set[tuple[str, str]] = set()

    def open(self, running: RunningCatalog) -> None:
        """Another catalog runs."""
        fingerprints = {plan.name: plan.fingerprint for plan in running.catalog.current}
        self._slots = {query: slots for query, slots in self._slots.items() if fingerprints.get(query) == self._fingerprints.get(query)}
        self._deployment, self._fingerprints = running.deployment, fingerprints

    def snapshot(self) -> dict[str, Any]:
        """For the directive's memory: some two kilobytes a query, and nothing of those that have shed nothing of late, of which there is nothing to tell."""
        told = {query: slots for query, slots in self._slots.items() if any(slot.shed for slot in slots)}
        known = {query: [self._fingerprints.get(query, ""), _plain(slots)] for query, slots in told.items()}
        return {"format": FORMAT, "reported_ms": self._reported_ms, "queries": known}

    def restore(self, snapshot: Mapping[str, Any], now_ms: int) -> None:
        """Goes on from a snapshot, before a catalog is opened; of one of another format, or of none, from nothing."""
        if snapshot.get("format") != FORMAT:
            return
        self._reported_ms = snapshot["reported_ms"]
        self._fingerprints = {query: fingerprint for query, (fingerprint, _) in snapshot["queries"].items()}
        self._slots = {query: deque(map(_Slot.from_plain, slots)) for query, (_, slots) in snapshot["queries"].items()}
        self._forget(now_ms)

    def observe(self, now_ms: int, totals: BatchTotals, directive: Directive) -> None:
        """A batch is over. One of another catalog than that which runs says nothing of queries that have changed, and is passed over.

        Args:
            now_ms: the clock.
            totals: of the batch.
            directive: of the batch.
        """
        if directive.deployment != self._deployment:
            return
        samples, shed = totals.samples, directive.shedding
        for query, counts in samples.items():
            self._slot(query, now_ms).sample += np.array(counts, np.float64).reshape(2, GROUPS)
        for query, tally in totals.queries.items():
            begun = query in samples or query in shed or self._slots.get(query)  # from then on every batch counts
            if begun or any(tally.verdicts.values()):
                slot = self._slot(query, now_ms)
                slot.found += tally.matches
                slot.refuted += tally.refuted - tally.withheld - tally.refuted_timeouts
                slot.unverifiable += tally.unverifiable - tally.unverifiable_timeouts
                slot.shed |= query in shed
        self._forget(now_ms)

    def estimates(self, query: str) -> dict[str, Estimate]:
        """By `METRICS`, what is known of the last minutes, those without shedding among them; nothing of a query that has shed nothing in them, or whose sample found nothing."""
        slots = self._slots.get(query, ())
        if not any(slot.shed for slot in slots):
            return {}
        counts = sum((slot.sample for slot in slots), np.zeros((2, GROUPS)))
        found, refuted, unverifiable = (sum(getattr(slot, name) for slot in slots) for name in ("found", "refuted", "unverifiable"))
        known = {"recall": recall_of_sample(counts), "precision": precision_of_verdicts(found, refuted, unverifiable)}
        return {name: estimate for name, estimate in known.items() if estimate is not None}

    def show(self, metrics: Metrics, queries: Collection[str]) -> None:
        """Sets the metrics of these queries, and forgets the others."""
        self._slots = {query: slots for query, slots in self._slots.items() if query in queries}
        known = {query: self.estimates(query) for query in self._slots}
        shown = {(query, name) for query, estimates in known.items() for name in estimates}
        if self._shown - shown:  # not told any more
            for name in METRICS.values():
                metrics.clear(name)
        self._shown = shown
        for query, estimates in known.items():
            for name, estimate in estimates.items():
                for bound, value in (("estimate", estimate.value), ("lower", estimate.lower), ("upper", estimate.upper)):
                    metrics.set(METRICS[name], value, query=query, bound=bound)

    def told(self, query: str) -> dict[str, Any]:
        """For ``/queries``: by name lower end, value and upper end."""
        return {name: [round(one, 4) for one in (at.lower, at.value, at.upper)] for name, at in self.estimates(query).items()}

    def reports(self, batch: int, now_ms: int, plans: Mapping[str, Plan]) -> tuple[QualityReport, ...]:
        """For the audit topic: once a minute, of the queries of which something is known."""
        if 0 <= now_ms - self._reported_ms < SLOT_MS:
            return ()
        told = {query: known for query in sorted(self._slots.keys() & plans.keys()) if (known := self.told(query))}
        if told:
            self._reported_ms = now_ms
        return tuple(
            QualityReport(
                now_ms, query, plans[query].version, batch, PERIOD_MS, **{name: tuple(interval) for name, interval in known.items()}
            )
            for query, known in told.items()
        )

    def _forget(self, now_ms: int) -> None:
        """What is too old, and what a clock that was set for a while has put into the future."""
        for query, slots in self._slots.items():
            self._slots[query] = deque(slot for slot in slots if now_ms - PERIOD_MS <= slot.number * SLOT_MS <= now_ms)

    def _slot(self, query: str, now_ms: int) -> _Slot:
        slots = self._slots.setdefault(query, deque())
        if not slots or slots[-1].number != now_ms // SLOT_MS:
            slots.append(_Slot(now_ms // SLOT_MS))
        return slots[-1]
