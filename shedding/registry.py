"""Every method by the name that queries use. Adding one: a file, a line here; the conformance suite then checks it.

Methods are imported when they are asked for: scikit-learn and the kernels of methods that nobody uses cost no start.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from shedding.interface import MATCH_LEVELS, Level, Method, Model, Training


@dataclass(frozen=True, slots=True)
class Entry:
    """A method that is not imported yet.

    Attributes:
        level: what it drops.
        title: one line for people.
        place: module and class.
        learns: whether its models come from observations.
        panes: whether its decisions depend on the events before; all others are about an event alone.
        keyed: whether it asks for partitions; without any, it would know nothing.
        remembers: whether it must know what was kept of a whole window.
        reads: whether it asks what partial matches have bound.
    """

    level: Level
    title: str
    place: str
    learns: bool = True
    panes: bool = False
    keyed: bool = False
    remembers: bool = False
    reads: bool = False

    @property
    def of_matches(self) -> bool:
        """Whether it decides about partial matches, or what meets them: of an engine that has any."""
        return self.level in MATCH_LEVELS


METHODS: dict[str, Entry] = {
    "none": Entry("events", "drops nothing", "shedding.events.none:NoShedding", learns=False),
    "random": Entry("events", "drops events at random", "shedding.events.random:RandomShedding", learns=False),
    "universe": Entry(
        "events", "whole partitions, for a while (universe sampling)", "shedding.events.universe:Universe", learns=False, keyed=True
    ),
    "gspice": Entry(
        "events", "gSPICE: by type, attributes and predecessor pane, in hash tables", "shedding.events.gspice:Gspice", panes=True
    ),
    "gspice-tree": Entry("events", "gSPICE with a decision tree", "shedding.events.gspice_trees:gspice_tree", panes=True),
    "gspice-forest": Entry("events", "gSPICE with a random forest", "shedding.events.gspice_trees:gspice_forest", panes=True),
    "espice": Entry("events per window", "eSPICE: by type and position in the window", "shedding.events.espice:Espice"),
    "prefix": Entry("events", "whole chains: what extends something that was kept", "shedding.events.prefix:Prefix", remembers=True),
    "bl": Entry("events", "by repetition in patterns and frequency of types, whole events", "shedding.events.baseline:bl"),
    "e-bl": Entry("events per window", "the same, events in a window", "shedding.events.baseline:e_bl"),
    "hspice": Entry("events per partial match", "hSPICE: by type, position and state", "shedding.partial_matches.hspice:Hspice"),
    "pspice": Entry("partial matches", "pSPICE: completion probability over remaining time", "shedding.partial_matches.pspice:Pspice"),
    "pspice-minus": Entry("partial matches", "pSPICE without time", "shedding.partial_matches.pspice:PSPICE_MINUS"),
    "stateful": Entry(
        "partial matches", "ours: recall per second, by state and attributes", "shedding.partial_matches.stateful:Stateful", reads=True
    ),
    "pm-random": Entry("partial matches", "drops partial matches at random", "shedding.partial_matches.pm_random:PmRandom", learns=False),
    "cals": Entry("tuples", "CALS: extraneous tuples and shortened intervals", "shedding.tuples.cals:CALS", learns=False),
    "cals-v": Entry("tuples", "CALS-V: extraneous tuples only", "shedding.tuples.cals:CALS_V", learns=False),
    "cals-i": Entry("tuples", "CALS-I: shortened intervals only", "shedding.tuples.cals:CALS_I", learns=False),
    "rand": Entry("tuples", "drops tuples at random", "shedding.tuples.cals:RAND", learns=False),
}


def method(name: str, **settings: Any) -> Method[Any]:
    """A method with the paper's settings, or others.

    Raises:
        KeyError: no method of this name; queries are checked before they get here.
        TypeError: it has no such setting.
    """
    module, _, attribute = METHODS[name].place.partition(":")
    made: Method[Any] = getattr(import_module(module), attribute)(**settings)
    return made


def unlearned(name: str, seed: int = 0) -> Model[Any]:
    """The model of a method that learns nothing.

    Raises:
        KeyError: no method of this name.
        ValueError: the method must learn.
    """
    if METHODS[name].learns:
        raise ValueError(f'"{name}" needs a model')
    return method(name).train(None, Training(seed))
