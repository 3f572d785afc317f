"""What `cep validate` asks beside the language, where there is something to ask: it brings arrays and Kafka's client."""

from __future__ import annotations

from collections.abc import Sequence

from app.config.settings import Settings
from app.errors import Finding
from app.pipeline.startable import clashes, idle, refused, unforgetting
from app.query.compile import Compilation


def beside(settings: Settings | None, compiled: Compilation) -> Sequence[Finding]:
    """Why the application would not run queries that are right each by itself, which of them find nothing, and which forget nothing."""
    by_settings = [] if settings is None else [*clashes(settings, compiled), *unforgetting(settings, compiled)]
    return [*by_settings, *refused(compiled), *idle(compiled)]
