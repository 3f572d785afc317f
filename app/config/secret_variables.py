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


@contextmanager
def without_secrets(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Takes secret settings out of an environment for as long as the block runs: a child process that begins in it never sees them."""
    secret = secret_names()
    own = {name: value for name, value in environment.items() if name.startswith(PREFIX) and name.lower().split(NESTING)[-1] in secret}
    for name in own:
        del environment[name]
    try:
        yield
    finally:
        environment.update(own)
