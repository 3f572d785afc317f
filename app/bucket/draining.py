"""Old versions of changed queries (``on_change: drain``): they go on for matches that bind an event from before the change.

The new version binds events from after it only, so both together tell every match once. Before and after mean order of arrival in the bucket: per
source all offsets below the first one that came after the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from app.bucket.chunk import Section
from app.bucket.lists import some_of
from app.bucket.matching import Found
from app.cep.matches import Matches
from app.query.plan import Catalog, Plan

Cut = dict[int, int]
"""By source, the first offset that came after the change."""


class Drains:
    """The cuts of a bucket's old versions.

    Args:
        catalog: all queries.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._plans = {number: plan for number, plan in enumerate(catalog.plans) if plan.draining is not None}
        self._cuts: dict[int, Cut] = {number: {} for number in self._plans}

    def learn(self, sections: Iterable[Section]) -> None:
        """Takes note of the events of a micro-batch, all of which came after the change."""
        if not self._plans:
            return
        first: Cut = {}
        for section in sections:
            for source in np.unique(section.batch.source).tolist():
                least = int(section.batch.offset[section.batch.source == source].min())
                first[source] = min(least, first.get(source, least))
        for cut in self._cuts.values():
            for source, offset in first.items():
                cut.setdefault(source, offset)

    def of(self, found: Found) -> Found:
        """Of an old version, what binds an event from before the change; everything of the others."""
        cut = self._cuts.get(found.query)
        if cut is None:
            return found
        plan = self._plans[found.query]
        timeouts = None if found.timeouts is None else _begun(plan, found.timeouts, cut)
        return replace(found, matches=_begun(plan, found.matches, cut), timeouts=timeouts)

    def saved(self) -> list[list[Any]]:
        """For the bucket's header: name, fingerprint and cut of every old version."""
        return [[plan.name, plan.fingerprint, sorted(self._cuts[number].items())] for number, plan in self._plans.items()]

    def load(self, saved: Iterable[Iterable[Any]]) -> None:
        """Takes over what `saved` gave, perhaps under another catalog."""
        known: Mapping[tuple[str, str], Cut] = {(name, fingerprint): dict(cut) for name, fingerprint, cut in saved}
        for number, plan in self._plans.items():
            self._cuts[number] = known.get((plan.name, plan.fingerprint), {})


def merged_cuts(saved: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """What `Drains.saved` gave in several buckets, together: whatever came before the change has a lower offset than all that came after it."""
    cuts: dict[tuple[str, str], Cut] = {}
    for name, fingerprint, firsts in (one for bucket in saved for one in bucket):
        cut = cuts.setdefault((name, fingerprint), {})
        for source, offset in firsts:
            cut[source] = min(offset, cut.get(source, offset))
    return [[name, fingerprint, sorted(cut.items())] for (name, fingerprint), cut in cuts.items()]


def _begun(plan: Plan, matches: Matches, cut: Cut) -> Matches:
    """The matches that bind an event from before the cut."""
    if not len(matches):
        return matches
    bound = matches.constituents([item.index for item in plan.positive])
    source, offset = matches.events.source[bound.rows], matches.events.offset[bound.rows]
    before = np.ones(len(source), np.bool_)
    for changed, first in cut.items():
        before &= (source != changed) | (offset < first)
    begun = np.bitwise_or.reduceat(np.append(before, False), bound.starts[:-1]) & (np.diff(bound.starts) > 0)
    return some_of(matches, np.flatnonzero(begun))
