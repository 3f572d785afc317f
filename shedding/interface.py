"""What every shedder is: a method that learns a model, a model that makes gates, a gate that says what to keep.

Methods, models and gates are values: they pickle, they decide from their arguments alone, and calling them changes nothing. A new method is one file
with these three, and a line in `shedding.registry`; the conformance suite then checks it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from platform import python_version
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shedding.candidates import Mask

Level = Literal["events", "events per window", "events per partial match", "partial matches", "tuples"]
MATCH_LEVELS: tuple[Level, ...] = ("events per partial match", "partial matches")
"""Levels at which partial matches are decided about, or what meets them: they want an engine that has any."""
Arrays = dict[str, NDArray[Any]]
Json = dict[str, Any]

Candidates = TypeVar("Candidates", contravariant=True)  # noqa: PLC0105 - reads better in signatures
Observations = TypeVar("Observations", contravariant=True)  # noqa: PLC0105

_LIBRARIES = ("numpy", "numba", "scikit-learn")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Where a model comes from.

    Attributes:
        method: name of the method in `shedding.registry`.
        query: fingerprint of the query or queries that it was learned for; empty for any.
        seed: all chance in training and gates comes from it.
        observed: how many events, pairs, steps it was learned from.
        first_ms: time of the first of them; 0 without time.
        last_ms: time of the last of them.
        libraries: versions of Python and libraries that made it.
        candidates: share of those events of the training stream that the query can use which was dropped, at drop ratios from 0 to 1; empty: not measured.
        ratios: these drop ratios, ascending; empty: in even steps, as versions before had them.
        window_events: events of the training stream in a window of the query, the mean where it is in time; 0: not measured.
    """

    method: str
    query: str = ""
    seed: int = 0
    observed: int = 0
    first_ms: int = 0
    last_ms: int = 0
    libraries: tuple[tuple[str, str], ...] = ()
    candidates: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    window_events: float = 0.0

    def as_json(self) -> Json:
        """The same for a file."""
        return {**asdict(self), "libraries": dict(self.libraries)}

    @staticmethod
    def from_json(fields: Json) -> Manifest:
        """The inverse.

        Raises:
            TypeError, ValueError, KeyError: it is none.
        """
        measured = {name: tuple(fields.get(name, ())) for name in ("candidates", "ratios")}
        return Manifest(**{**fields, "libraries": tuple(sorted(fields["libraries"].items())), **measured})

    def ratio_for(self, of_candidates: float) -> float:
        """The drop ratio at which this share of the query's candidates is dropped; as asked where that was not measured.

        A model learns from a whole stream, where dropping what no query can use comes first. Whoever has left that out already
        (selection) speaks of a share of what is left.

        >>> Manifest("gspice", candidates=(0.0, 0.0, 0.5, 1.0)).ratio_for(0.25)
        0.5
        >>> Manifest("gspice", candidates=(0.0, 0.0, 1.0), ratios=(0.0, 0.98, 1.0)).ratio_for(0.25)
        0.985
        """
        if not self.candidates:
            return of_candidates
        ratios = self.ratios or np.linspace(0.0, 1.0, len(self.candidates))
        return float(np.interp(of_candidates, self.candidates, ratios))


@dataclass(frozen=True, slots=True)
class Training:
    """What a model must know besides observations.

    Attributes:
        seed: for all chance, not negative.
        query: fingerprint of the query; empty for any.
    """

    seed: int = 0
    query: str = ""

    def manifest(self, method: str, observed: int = 0, first_ms: int = 0, last_ms: int = 0) -> Manifest:
        """The manifest of a model made here and now."""
        return Manifest(method, self.query, self.seed, observed, first_ms, last_ms, library_versions())


def library_versions() -> tuple[tuple[str, str], ...]:
    """Python and the libraries that decisions depend on, by name."""
    return tuple(sorted([("python", python_version()), *((name, version(name)) for name in _LIBRARIES)]))


@runtime_checkable
class Gate(Protocol[Candidates]):
    """A model at one drop ratio."""

    def keep(self, candidates: Candidates) -> Mask:
        """Which candidates stay.

        The same candidates always give the same answer, batch by batch as all at once. Ties are broken by a hash of the candidate's identity.

        Returns:
            bool (candidates,), True = keep; a new array.
        """
        ...


@runtime_checkable
class Model(Protocol[Candidates]):
    """What a method has learned; immutable."""

    @property
    def manifest(self) -> Manifest:
        """Where it comes from."""
        ...

    def gate(self, drop_ratio: float) -> Gate[Candidates]:
        """A gate that drops this share in the long run.

        Args:
            drop_ratio: 0 keeps all, 1 drops all that the method may drop. What is dropped at a ratio is dropped at every higher one.
        """
        ...

    def arrays(self) -> Arrays:
        """All its arrays by name, for a file."""
        ...

    def parameters(self) -> Json:
        """Everything else, as JSON knows it."""
        ...


@runtime_checkable
class Priced(Protocol[Candidates]):
    """A model that can also drop by price: whatever promises too little, however much there is at the moment. For bounds on the average."""

    def priced(self, drop_ratio: float) -> Gate[Candidates]:
        """A gate that leaves, in the long run, so much less than there would be without shedding."""
        ...


@runtime_checkable
class Ranking(Protocol[Candidates]):
    """A gate whose decisions come in two steps: what an event is worth by itself, and, by who remembers what was kept, whether it stays."""

    @property
    def threshold(self) -> float:
        """What decides in the second step; 0 keeps all."""
        ...

    def ranks(self, events: Candidates) -> NDArray[np.float64]:
        """float64 (events,), in [0, 1): how much each is worth among those that extend as much."""
        ...


@runtime_checkable
class Method(Protocol[Observations]):
    """A way to shed. Its settings are its fields, with the paper's values as defaults."""

    @property
    def name(self) -> str:
        """As queries write it."""
        ...

    @property
    def level(self) -> Level:
        """What it drops; decides its candidates and observations."""
        ...

    def train(self, observations: Observations | None, training: Training) -> Model[Any]:
        """Learns a model.

        Args:
            observations: what became of candidates; None for methods that learn nothing.
            training: seed and query.

        Raises:
            ValueError: observations that nothing can be learned from (none at all).
        """
        ...

    def restored(self, manifest: Manifest, parameters: Json, arrays: Arrays) -> Model[Any]:
        """The model that had these parameters and arrays.

        Raises:
            KeyError, ValueError, TypeError: they are not those of such a model.
        """
        ...
