"""Every event shedder by the name that queries use. Adding one: a file, a line here; the conformance suite then checks it."""

from __future__ import annotations

from collections.abc import Callable

from shedding.events.none import NoShedder
from shedding.events.random import RandomShedder
from shedding.interface import EventShedder

EVENT_SHEDDERS: dict[str, Callable[..., EventShedder]] = {
    "none": NoShedder,
    "random": RandomShedder,
}


def event_shedder(name: str, seed: int = 0) -> EventShedder:
    """A fresh shedder.

    Raises:
        KeyError: no shedder of this name; queries are checked before they get here.
    """
    return EVENT_SHEDDERS[name](seed=seed)
