"""Before anything starts: whether secrets are where all parts of the application can read them, and as they are meant. And what reached which Kafka client."""

from __future__ import annotations

from app.config.loopback import is_loopback
from app.config.settings import Settings
from app.delivery.client_options import reach_of
from app.delivery.security import unfit_files
from app.errors import ConfigurationError, Finding
from app.observe.logs import get_logger

log = get_logger(__name__)


def check_secrets(settings: Settings) -> None:
    """Looks at secrets' files, and where they are needed.

    Raises:
        ConfigurationError: one is missing, or cannot be used.
    """
    if findings := [*unfit_files(settings.kafka), *_only_here(settings)]:
        raise ConfigurationError(findings)
    if settings.kafka.client_options:
        reach = reach_of(settings.kafka.client_options)
        told = {
            "both": reach.both,
            "librdkafka_calls_it": dict(reach.renamed),
            "spark_only": reach.java,
            "librdkafka_only": reach.librdkafka,
        }
        log.info("kafka.client_options reach", **{who: options for who, options in told.items() if options})


def _only_here(settings: Settings) -> list[Finding]:
    """What executors on other machines cannot read, or reach."""
    if settings.spark.conf.get("spark.master", settings.spark.master).startswith("local"):
        return []
    kafka, registry, http = settings.kafka.security, settings.schema_registry, settings.http
    asked = (
        ("kafka.security.password", kafka.password, kafka.password_file),
        ("kafka.security.key_password", kafka.key_password, kafka.key_password_file),
        ("kafka.security.oauth.client_secret", kafka.oauth.client_secret, kafka.oauth.client_secret_file),
        ("schema_registry.password", registry.password, registry.password_file),
        ("http.task_token", http.task_token, http.task_token_file),
    )
    hint = "a file at the same path in driver and executors, as the chart mounts it from a Secret"
    found = [
        Finding(f"{name}: executors on other machines can read a secret from a file only: give {name}_file", hint=hint)
        for name, value, file in asked
        if value is not None and file is None
    ]
    if http.task_token is None:
        found.append(Finding("http.task_token_file is needed where executors are on other machines", hint=hint))
    if is_loopback(http.control.host or http.host):
        hint = "0.0.0.0 listens on all interfaces"
        found.append(Finding("http.host: executors on other machines ask the driver, and it listens on its own machine only", hint=hint))
    return found
