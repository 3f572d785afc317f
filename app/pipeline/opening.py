"""A deployment as the control plane opens it."""

from __future__ import annotations

from app.control.plane import RunningCatalog
from app.owners.deployment import Deployment
from app.owners.models import models_in_use


def running_catalog(deployment: Deployment, fingerprint: str) -> RunningCatalog:
    """The catalog of a deployment that is stored under this fingerprint, with what people are told of its models."""
    models = models_in_use(deployment.catalog.plans, deployment.models)
    return RunningCatalog(deployment.catalog, fingerprint, topics=deployment.topics, models=models)
