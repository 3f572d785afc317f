"""Checks of the schema registry, of the schemas in it, and of the queries against them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from app.config.settings import Settings
from app.delivery.composite_schema import composite_schema, subject
from app.delivery.topics import output_topic
from app.errors import AccessRefusedError, CepError, DependencyError
from app.events.registry import Registry, registry_settings
from app.pipeline.checkup.checks import Check, attempted, failed, of_error, of_findings, ok, warning
from app.pipeline.preparation import read_query_set, read_streams
from app.pipeline.startable import errors_of
from app.query.compile import Compilation, read_queries
from app.query.plan import Plan
from app.query.resolved.vocabulary import UNKNOWN


@dataclass(frozen=True, slots=True)
class Asked:
    """The registry, and whether it answers."""

    registry: Registry
    answers: bool
    checks: list[Check]


def ask(settings: Settings) -> Asked:
    """Is it there, and does it let us in?"""
    registry, url = Registry(registry_settings(settings.schema_registry)), settings.schema_registry.url
    try:
        registry.check()
    except AccessRefusedError as error:
        return Asked(registry, False, [of_error("registry", error)])
    except DependencyError as error:
        hint = "is schema_registry.url right (with its path), and is it up?"
        return Asked(registry, False, [failed("registry", str(error), hint, os.EX_UNAVAILABLE)])
    return Asked(registry, True, [ok("registry", f"{url} answers")])


def known_anyhow(settings: Settings) -> Compilation:
    """The queries as far as they are understood without any schema: their outputs are known then."""
    return read_queries(settings.queries.paths, UNKNOWN)


def schemas(settings: Settings, asked: Asked) -> tuple[list[Check], Compilation | None]:
    """The streams' schemas, the queries against them, and the subjects of what they write."""
    compiled: list[Compilation] = []

    def look() -> list[Check]:
        streams = read_streams(settings, asked.registry)
        compiled.append(read_query_set(settings, streams))
        return [ok("schemas", f"{sum(len(stream.readers) for stream in streams)} of the events of {len(streams)} streams are there")]

    checks = attempted("schemas", look)
    if compiled and asked.answers:
        checks += _written(settings, asked.registry, compiled[0])
    return checks, compiled[0] if compiled else None


def _written(settings: Settings, registry: Registry, compiled: Compilation) -> list[Check]:
    """What the application writes must be registered; it does it itself where it may."""
    new = []
    for plan in compiled.catalog.plans:
        try:
            if not _is_registered(settings, registry, plan):
                new.append(plan.name)
        except CepError as error:
            return [of_error("schemas", error)]
    if not new:
        return []
    names = ", ".join(new)
    if settings.schema_registry.register_schemas:
        return [ok("schemas", f"the start registers those of the composite events of {names}")]
    hint = "register them in the pipeline that may, or set schema_registry.register_schemas: true; cep explain shows the fields"
    return [failed("schemas", f"those of the composite events of {names} are not registered", hint, os.EX_UNAVAILABLE)]


def _is_registered(settings: Settings, registry: Registry, plan: Plan) -> bool:
    found = registry.latest(subject(output_topic(settings, plan), plan))
    return found is not None and json.loads(found.text).get("fields") == composite_schema(plan)["fields"]


def queries(settings: Settings, compiled: Compilation) -> list[Check]:
    """Can they run?"""
    wrong = of_findings("queries", errors_of(settings, compiled))
    if wrong:
        return wrong
    doubts = [
        warning("queries", finding.render().partition("\nhint: ")[0], finding.hint or "cep validate tells more")
        for finding in compiled.warnings
    ]
    return [*doubts, ok("queries", f"{len(compiled.catalog.plans)} enabled, no errors")]
