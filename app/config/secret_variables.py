"""Secrets in environment variables: read by the process that they were given to, and handed on to no other."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

from app.config.settings import Settings
from app.config.sources import NESTING, PREFIX, plain_value


def secret_names(section: type[BaseModel] = Settings) -> frozenset[str]:
    """Names of settings that are secrets, whatever section they are in.

    >>> sorted(secret_names())
    ['client_secret', 'key_password', 'password', 'task_token', 'token']
    """
    names = {name for name, field in section.model_fields.items() if "SecretStr" in str(field.annotation)}
    sections = (field.annotation for field in section.model_fields.values())
    inner = (secret_names(one) for one in sections if isinstance(one, type) and issubclass(one, BaseModel))
    return frozenset(names.union(*inner))


def is_secret(variable: str, text: str = "") -> bool:
    """Whether a variable gives a secret setting, by its name or in its text, which may be a whole section.

    >>> is_secret("CEP_KAFKA__SECURITY__PASSWORD"), is_secret("CEP_HTTP__PORT"), is_secret("PASSWORD")
    (True, False, False)
    >>> is_secret("CEP_HTTP", "{port: 8080}"), is_secret("CEP_HTTP", "{port: 8080, control: {token: a value of 16 or more}}")
    (False, True)
    """
    if not variable.startswith(PREFIX):
        return False
    names = secret_names()
    return variable.lower().split(NESTING)[-1] in names or not names.isdisjoint(_keys(plain_value(text)))


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from map(str, value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(inner)


@contextmanager
def without_secrets(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Takes secret settings out of an environment for as long as the block runs: a child process that begins in it never sees them."""
    own = {name: value for name, value in environment.items() if is_secret(name, value)}
    for name in own:
        del environment[name]
    try:
        yield
    finally:
        environment.update(own)
