"""The token by which all parts of the application know each other: where it is, and the keys that are made of it."""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path

from pydantic import SecretStr

from app.config.secret_files import secret_file
from app.config.settings import Http


def token_file(http: Http) -> Path:
    """The file with it: the configured one, or one of this process: with the configured value, or a random one that stays the same while the process lives."""
    configured = secret_file(http.task_token, http.task_token_file)
    return configured or _made()


@cache
def _made() -> Path:
    made = secret_file(SecretStr(secrets.token_urlsafe(32)), None)
    if made is None:
        raise AssertionError("a value was given")
    return made
