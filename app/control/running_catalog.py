"""The catalog that tasks are to run, with what goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.query.plan import Catalog


@dataclass(frozen=True, slots=True)
class RunningCatalog:
    """What tasks are to run.

    Attributes:
        deployment: fingerprint of the compiled catalog, passed on in directives.
        schema_ids: registry ids of output schemas, by subject, passed on in directives.
        topics: by number (`app.events.topics`); where nothing is kept, those of the settings.
        before: what the checkpoint's newest directive runs, where a start makes something else of the queries; its last batch is still to be told of.
        models: by query, what its shedder goes by, as ``/queries`` tells it: ``method``, ``file``, ``digest``, ``events`` that it learned from, times of the first and last, ms.
    """

    catalog: Catalog
    deployment: str = ""
    schema_ids: Mapping[str, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    before: RunningCatalog | None = None
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
