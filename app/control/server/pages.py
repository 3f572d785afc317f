"""Pages for people: what the HTTP server serves besides its own answers. Who makes them is above (`app.console`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """What is served at an address.

    Attributes:
        headers: besides type and length.
    """

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


Pages = Callable[[str], Page | None]
"""Answers a GET by its target (path and query string); None: there is nothing. Called from any thread."""


def no_pages(_: str) -> Page | None:
    """What is served before there are pages."""
    return None
