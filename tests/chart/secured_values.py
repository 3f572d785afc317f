"""Values of a release whose broker and registry want to know who speaks with them, and the Secrets that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.local.registry import Registry
from tests.kafka.secured import GuardedRegistry, Secured

REGISTRY_USER, REGISTRY_PASSWORD = "cep-registry-user", "registry-password"
KEYS = {
    "password_file": "password",
    "ca_file": "ca",
    "certificate_file": "certificate",
    "key_file": "privateKey",
    "key_password_file": "privateKeyPassword",
}
"""The chart's words for what the settings call so."""


def guarded_registry(services: Secured, registry: Registry, host: str) -> GuardedRegistry:
    """The registry once more, behind TLS and a password; the password is among the services' secrets."""
    secret = services.secrets[REGISTRY_PASSWORD] = f"planted-{REGISTRY_PASSWORD}-0123456789"
    (services.folder / REGISTRY_PASSWORD).write_text(secret)
    return GuardedRegistry(registry.url, REGISTRY_USER, secret, services.authority.issue("registry", hosts=[host]), "0.0.0.0")


def secured_values(services: Secured, registry: GuardedRegistry, way: str) -> tuple[dict[str, Any], dict[str, tuple[Path, ...]]]:
    """What a release says in order to speak with both, over one way of the broker's.

    Returns:
        Values, and the files of each Secret that they name; a file's name is its key.
    """
    kafka = services.kafka(way)
    files = {KEYS[name]: Path(file) for name, file in kafka["security"].items() if name in KEYS}
    said = {name: value for name, value in kafka["security"].items() if name not in KEYS}
    keys = {name: file.name for name, file in files.items()}
    auth = {"username": REGISTRY_USER, "existingSecret": "registry-user", "passwordKey": REGISTRY_PASSWORD}
    values = {
        "kafka": {"bootstrapServers": kafka["bootstrap_servers"], "security": {**said, "existingSecret": f"kafka-{way}", "keys": keys}},
        "schemaRegistry": {
            "url": registry.url.replace("127.0.0.1", services.host),
            "auth": {**auth, "caKey": services.authority.file.name},
        },
    }
    registrys = (services.folder / REGISTRY_PASSWORD, services.authority.file)
    return values, {f"kafka-{way}": tuple(files.values()), "registry-user": registrys}
