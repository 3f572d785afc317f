"""Composite events that other queries read, as `cep replay` names them: ``name/n``, the n-th of the query in the order in which they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.bucket.composition import Composition, order_keys, stream_of
from app.bucket.identity import identities_of, place_of
from app.bucket.places import COMPOSITES
from app.cep.matches import Matches
from app.query.plan import Catalog


@dataclass(frozen=True, slots=True)
class ReadComposites:
    """Composite events that other queries read, by the offset that they have as events.

    Attributes:
        query: the query that emitted it.
        number: which of its composite events it is.
        rank: its place in the order of all of them.
    """

    query: Mapping[int, str] = field(default_factory=dict)
    number: Mapping[int, int] = field(default_factory=dict)
    rank: Mapping[int, int] = field(default_factory=dict)

    @staticmethod
    def of(catalog: Catalog, found: Mapping[int, Sequence[Matches]], topics: Sequence[str]) -> ReadComposites:
        """Those of a catalog's queries.

        Args:
            catalog: all queries.
            found: by query its matches.
            topics: of the file; empty where events have no positions.
        """
        composition = Composition(catalog, topics)
        if not composition.streams:
            return ReadComposites()
        query: dict[int, str] = {}
        number: dict[int, int] = {}
        keys: dict[int, bytes] = {}
        for own in (query for group in composition.order for query in catalog.groups[group].queries):
            plan = catalog.plans[own]
            if stream_of(plan.name) not in composition.streams:
                continue
            for n, (key, place) in enumerate(
                sorted(
                    (key, place_of(identity))
                    for matches in found.get(own, ())
                    for key, identity in zip(order_keys(plan, matches, keys), identities_of(plan, matches, topics), strict=True)
                )
            ):
                query[place], number[place], keys[place] = plan.name, n, key
        return ReadComposites(query, number, {place: rank for rank, place in enumerate(sorted(keys, key=keys.__getitem__))})

    def places(self, source: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """Offsets by which events can be sorted: of composite events their rank."""
        if not self.rank or not (composite := source == COMPOSITES).any():
            return offset
        places = offset.copy()
        places[composite] = [self.rank[place] for place in offset[composite].tolist()]
        return places

    def positions(self, source: NDArray[np.int64], offset: NDArray[np.int64], lines: list[int]) -> list[int | str]:
        """What stands for the events: their lines, of composite events ``name/n``."""
        if not self.rank:
            return list(lines)
        pairs = zip(source.tolist(), offset.tolist(), lines, strict=True)
        return [f"{self.query[o]}/{self.number[o]}" if s == COMPOSITES else line for s, o, line in pairs]

    def type_of(self, source: int, offset: int) -> str:
        """The type of a composite event; of others an empty text."""
        return self.query[offset] if source == COMPOSITES else ""
