"""Which old versions of changed queries go on, and how long (``on_change: drain``); see `app.bucket.draining` for what they still tell.

The checkpoint knows: the newest directive names the deployment that ran last. An old version is over when time has passed everything that could begin
before the change. How far time had come then is known for certain one start later: all batches before the newest directive's are over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.bucket.hold import Progress, TimeRules, stream_watermark
from app.config.settings import Settings
from app.control.messages.batch_log import BatchLog
from app.control.messages.directives import Directive
from app.control.messages.reached import progress_by
from app.events.batch import PARTITION_BITS
from app.owners.deployment import Deployment, OutputTopic, load_deployment
from app.owners.models import StoredModel
from app.owners.query_texts import QueryTexts, narrowed
from app.query.compile import Compilation
from app.query.plan import Draining, Plan
from app.query.reach import reach_ms
from app.storage.open import open_store


@dataclass(frozen=True, slots=True)
class Past:
    """What ran last in a checkpoint.

    Attributes:
        deployment: of the newest directive.
        times: by source, how far time had come before that directive's batch, ms.
        progress: what that directive says of sources: those that are idle hold nobody up.
        named: fingerprint by which that directive names the deployment; another version may have written it, which would give it another one.
    """

    deployment: Deployment
    times: Mapping[int, int]
    progress: Progress = field(default_factory=Progress)
    named: str = ""

    @staticmethod
    def before(directive: Directive, deployment: Deployment, times: Mapping[int, int]) -> Past:
        """What ran before a batch.

        Args:
            directive: of the batch.
            deployment: that it names.
            times: by source, how far time had come before it.
        """
        return Past(deployment, times, progress_by(directive, times), directive.deployment)

    def of_topics(self, numbers: Collection[int]) -> Past:
        """Without the times of topics that are no longer read: they would be waited for in vain."""
        times = {source: time for source, time in self.times.items() if source >> PARTITION_BITS in numbers}
        sources = frozenset(source for source in self.progress.sources if source >> PARTITION_BITS in numbers)
        return replace(self, times=times, progress=replace(self.progress, sources=sources))

    def times_of(self, plan: Plan) -> dict[int, int]:
        """Of the sources that the query reads."""
        rules = self._rules(plan)
        return {source: time for source, time in self.times.items() if any(one.owns(source) for one in rules)}

    def watermark_of(self, plan: Plan, lateness_ms: int) -> int:
        """Before this no event comes any more that the query is fed."""
        behind_ms = lateness_ms + max(_trusted_ms(plan, rules) for rules in self._rules(plan))
        return min(
            stream_watermark(
                replace(rules, allowed_lateness_ms=behind_ms), {s: t for s, t in self.times.items() if rules.owns(s)}, self.progress
            )
            for rules in self._rules(plan)
        )

    def _rules(self, plan: Plan) -> list[TimeRules]:
        return [one.rules for one in self.deployment.streams if one.rules.stream in plan.streams]


@dataclass(frozen=True, slots=True)
class Old:
    """An old version of a query, with all that a deployment holds of a query."""

    plan: Plan
    output: OutputTopic
    timeouts: OutputTopic | None
    model: StoredModel | None
    texts: QueryTexts


def past_of(settings: Settings) -> Past | None:
    """What ran last; None in a fresh checkpoint."""
    log = BatchLog(open_store(settings.checkpoint.uri))
    latest = log.latest()
    if latest is None or not latest.directive.deployment:
        return None
    deployment = load_deployment(settings.checkpoint.uri, latest.directive.deployment)
    return Past.before(latest.directive, deployment, log.greatest_times_before(latest.directive.batch))


def old_versions(compiled: Compilation, past: Past | None, lateness_ms: int) -> Sequence[Old]:
    """The old versions that go on beside the queries of today.

    Args:
        compiled: the queries of today.
        past: what ran last.
        lateness_ms: how far watermarks are behind the greatest times, at most.
    """
    if past is None:
        return ()
    draining = {query.name: query.plan for query in compiled.queries if query.plan and query.document.plain("on_change") == "drain"}
    running = {plan.name: plan.fingerprint for plan in compiled.catalog.plans}
    deployment, found = past.deployment, []
    again = {
        plan.name: plan for plan in deployment.catalog.plans if plan.draining is not None and running.get(plan.name) == plan.fingerprint
    }
    for number, plan in enumerate(deployment.catalog.plans):
        if plan.name not in draining or running.get(plan.name) in (None, plan.fingerprint):
            continue
        if plan.name in again and _is_later(plan, again[plan.name]):
            continue
        marked = replace(plan, draining=_marked(plan, past))
        if not _over(marked, past, lateness_ms):
            texts = narrowed(deployment.texts_of(number), plan.name)
            found.append(Old(marked, deployment.outputs[number], deployment.timeouts[number], deployment.models[number], texts))
    return found


def drains_for_ms(plan: Plan) -> int | None:
    """How long after an event's time a match that binds it may still become known; None: without bound. Temporal queries are asked at every slide, and once more when the tuple has left the window."""
    reach = reach_ms(plan)
    return reach if reach is None or plan.temporal is None else reach + plan.temporal.window.slide


def _trusted_ms(plan: Plan, rules: TimeRules) -> int:
    """How far behind the watermark events of a stream whose keys' order is trusted are waited for: as far as this query alone would have them fed. Beside one with a window of twelve hours they are fed for as long (`app.bucket.trusted.trusted_slack_ms`), and the old version would run for half a day."""
    return 0 if rules.ordered_by is None else drains_for_ms(plan) or 0


def _marked(plan: Plan, past: Past) -> Draining:
    known, reach, times = plan.draining, drains_for_ms(plan), past.times_of(plan)
    if known is None:
        return Draining(last=past.deployment.catalog.version)
    if known.until_ms is not None or reach is None or not times:
        return known
    return replace(known, until_ms=max(times.values()) + reach)


def _is_later(plan: Plan, again: Plan) -> bool:
    """Whether a version came after one that was draining and runs again: this was fed all the while and tells what those between would, and each match is to be told once."""
    return plan.draining is None or (again.draining is not None and plan.draining.last > again.draining.last)


def _over(plan: Plan, past: Past, lateness_ms: int) -> bool:
    until = None if plan.draining is None else plan.draining.until_ms
    return until is not None and past.watermark_of(plan, lateness_ms) > until
