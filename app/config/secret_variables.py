"""Secrets in environment variables: read by the process that they were given to, and handed on to no other."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from pydantic import BaseModel

from app.config.settings import Settings
from app.config.sources import NESTING, PREFIX


def secret_names(section: type[BaseModel] = Settings) -> frozenset[str]:
    """Names of settings that are secrets, whatever section they are in.

    >>> sorted(secret_names())
    ['client_secret', 'key_password', 'password', 'task_token', 'token']
    """
    names = {name for name, field in section.model_fields.items() if "SecretStr" in str(field.annotation)}
    sections = (field.annotation for field in section.model_fields.values())
    inner = (secret_names(one) for one in sections if isinstance(one, type) and issubclass(one, BaseModel))
    return frozenset(names.union(*inner))


def is_secret(variable: str) -> bool:
    """Whether a variable gives a secret setting.

    >>> is_secret("CEP_KAFKA__SECURITY__PASSWORD"), is_secret("CEP_HTTP__PORT"), is_secret("PASSWORD")
    (True, False, False)
    """
    return variable.startswith(PREFIX) and variable.lower().split(NESTING)[-1] in secret_names()


@contextmanager
def without_secrets(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Takes secret settings out of an environment for as long as the block runs: a child process that begins in it never sees them."""
    own = {name: value for name, value in environment.items() if is_secret(name)}
    for name in own:
        del environment[name]
    try:
        yield
    finally:
        environment.update(own)
