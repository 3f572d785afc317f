"""A reconciliation on the audit topic: one record for each query, and for its timeouts, of which anything was published (`schemas/Reconciliation.avsc`)."""

from __future__ import annotations

from typing import Any

from app.bucket.hold import FOREVER, NEVER
from app.config.settings import Settings
from app.events.registry import Registry, registry_settings
from app.owners.deployment import OutputTopic
from app.pipeline.preparation import audit_records
from app.pipeline.publisher import Publisher
from app.pipeline.reconcile.outcome import Outcome, Row

RECORD = "Reconciliation"


def audit_output(settings: Settings) -> OutputTopic:
    """Where the records go; to be asked for before anything is published, as without it nobody could be told.

    Raises:
        DependencyError, ConfigurationError: the registry does not answer, or refuses the schema.
    """
    return audit_records(settings, Registry(registry_settings(settings.schema_registry)), RECORD)


def add_audit_records(publisher: Publisher, output: OutputTopic, outcome: Outcome) -> None:
    """What was published, and what shedding had cost."""
    for row in outcome.rows:
        if row.difference.missing or row.difference.false:
            publisher.audit(output, row.kind.query, audit_value(outcome, row))


def audit_value(outcome: Outcome, row: Row) -> dict[str, Any]:
    """One record."""
    one = row.difference
    return {
        "time": outcome.time_ms,
        "query": row.kind.query,
        "version": row.version,
        "kind": "TIMEOUTS" if row.kind.timeouts else "COMPOSITE_EVENTS",
        "shed_from": outcome.shed.begin,
        "shed_to": outcome.shed.end,
        "compared_from": None if row.scope.begin <= NEVER else row.scope.begin,
        "compared_to": None if row.scope.end >= FOREVER else row.scope.end,
        "complete": not row.cut,
        "true_events": one.true,
        "published": one.published,
        "published_true": one.published_true,
        "recall": one.recall,
        "precision": one.precision,
        "reconciled": len(one.missing),
        "retracted": len(one.false) - outcome.gone.get(row.kind, 0),
    }
