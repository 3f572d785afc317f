"""Which old versions of changed queries go on, and how long (``on_change: drain``); see `app.bucket.draining` for what they still tell.

The checkpoint knows: the newest directive names the deployment that ran last. An old version is over when time has passed everything that could begin
before the change. How far time had come then is known for certain one start later: all batches before the newest directive's are over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from app.bucket.hold import NEVER
from app.config.settings import Settings
from app.control.batch_log import BatchLog
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
    """

    deployment: Deployment
    times: dict[int, int]

    def of_topics(self, numbers: Collection[int]) -> Past:
        """Without the times of topics that are no longer read: they would be waited for in vain."""
        return replace(self, times={source: time for source, time in self.times.items() if source >> PARTITION_BITS in numbers})


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
    return Past(load_deployment(settings.checkpoint.uri, latest.directive.deployment), log.greatest_times_before(latest.directive.batch))


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
    for number, plan in enumerate(deployment.catalog.plans):
        if plan.name not in draining or running.get(plan.name) in (None, plan.fingerprint):
            continue
        marked = replace(plan, draining=_marked(plan, past))
        if not _over(marked, past, lateness_ms):
            texts = narrowed(deployment.texts_of(number), plan.name)
            found.append(Old(marked, deployment.outputs[number], deployment.timeouts[number], deployment.models[number], texts))
    return found


def drains_for_ms(plan: Plan) -> int | None:
    """How long after an event's time a match that binds it may still become known; None: without bound. Temporal queries forget it with the window."""
    if plan.temporal is not None:
        return plan.temporal.window.range + plan.temporal.window.slide if plan.temporal.window.unit == "ms" else None
    return reach_ms(plan)


def _marked(plan: Plan, past: Past) -> Draining:
    known, reach = plan.draining, drains_for_ms(plan)
    if known is None or known.until_ms is not None or reach is None or not past.times:
        return known or Draining()
    return Draining(max(past.times.values()) + reach)


def _over(plan: Plan, past: Past, lateness_ms: int) -> bool:
    until = None if plan.draining is None else plan.draining.until_ms
    return until is not None and min(past.times.values(), default=NEVER) - lateness_ms > until
