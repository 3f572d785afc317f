"""Changes of models on the audit topic (`schemas/ModelChange.avsc`): one record per query, when the deployment with the change is opened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.config.settings import Settings
from app.events.registry import Registry, registry_settings
from app.owners.deployment import Deployment
from app.owners.model_store import NONE, Learned, ModelStore
from app.owners.models import StoredModel
from app.pipeline.preparation import audit_records
from app.pipeline.publisher import Publisher
from app.query.plan import Plan
from app.storage.open import open_store

RECORD = "ModelChange"
GIVEN, GONE = "a person has put it into queries.models", "there is no model for the query any more"

InUse = dict[str, tuple[Plan, StoredModel | None]]


def tell_model_changes(settings: Settings, before: Deployment, after: Deployment, time_ms: int) -> None:
    """Writes the records.

    Args:
        settings: of the application.
        before: what ran.
        after: what runs now.
        time_ms: when it was opened.

    Raises:
        DependencyError, ConfigurationError: Kafka or the registry do not answer, or do not take it.
    """
    told = list(model_changes(ModelStore(open_store(settings.checkpoint.uri)), before, after))
    if told:
        output = audit_records(settings, Registry(registry_settings(settings.schema_registry)), RECORD)
        publisher = Publisher(settings)
        for value in told:
            publisher.audit(output, value["query"], {"time": time_ms, **value})
        publisher.flush()


def model_changes(store: ModelStore, before: Deployment, after: Deployment) -> Iterator[dict[str, Any]]:
    """Fields of the records, but for their time.

    Args:
        store: of the checkpoint.
        before: what ran.
        after: what runs now.
    """
    old = _running(before)
    for query, (plan, model) in _running(after).items():
        plan_before, model_before = old.get(query, (None, None))
        same = None if model is None else model.digest
        if same == (None if model_before is None else model_before.digest) and (
            plan_before is None or _shedder(plan_before) == _shedder(plan)
        ):
            continue
        yield {
            "query": query,
            "version": plan.version,
            "shedder": _shedder(plan),
            "shedder_before": None if plan_before is None else _shedder(plan_before),
            "model": None if model is None else model.file,
            "model_before": None if model_before is None else model_before.file,
            **_judged(store, query, model),
        }


def _running(deployment: Deployment) -> InUse:
    pairs = zip(deployment.catalog.plans, deployment.models, strict=True)
    return {plan.name: (plan, model) for plan, model in pairs if plan.draining is None}


def _shedder(plan: Plan) -> str:
    return plan.shedding.shedder


def _judged(store: ModelStore, query: str, model: StoredModel | None) -> dict[str, Any]:
    """Why, and how good it is; somebody may have chosen again since the deployment was prepared, so a model is found by what it is and not by the choice that there is now."""
    choice, known = store.choice(query), None
    if model is None:
        why = choice.why if choice.version == NONE and choice.why else GONE
    elif (known := _learned(store, query, model)) is None:
        why = GIVEN
    else:
        why = choice.why if choice.version == known.version else known.why
    if known is None:
        return {"why": why, "events": None, "harm": None, "harm_random": None, "harm_before": None}
    return {"why": why, "events": known.events, "harm": known.harm, "harm_random": known.random, "harm_before": known.in_use}


def _learned(store: ModelStore, query: str, model: StoredModel) -> Learned | None:
    """The version that it is; None where a person has put it there."""
    return next((one for one in store.versions(query) if (one.file, one.digest) == (model.file, model.digest)), None)
