"""What all queries of a catalog cost: one by one those that may shed, together those that never do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.control.law.elasticity import curves
from app.control.law.load import Load, Rest, State
from app.control.law.query_cost import QueryCost, QueryObservation, restored
from app.control.law.running import followed, remembered


class QueryCosts:
    """All queries of a catalog: one by one those that may shed, together those that never do.

    Args:
        streams: by query that may shed, the streams that it reads.
        judged: of them, those on whose matches verdicts are given while they shed.
        most: of them, the largest share of their partial matches that may go.
        in_place: of them, those all of whose events are handed over whatever is shed.

    Attributes:
        queries: those that may shed.
        overlap: events that are shipped for each candidate of a query: 1 where no two queries want the same events, a third where three do.
    """

    def __init__(
        self,
        streams: Mapping[str, Iterable[str]],
        judged: Collection[str] = (),
        most: Mapping[str, float] = MappingProxyType({}),
        in_place: Collection[str] = (),
    ) -> None:
        self.queries = tuple(streams)
        self._streams = {query: tuple(names) for query, names in streams.items()}
        self._known = {query: QueryCost() for query in streams}
        self._judged = frozenset(judged)
        self._in_place = np.array([query in in_place for query in streams], dtype=np.bool_)
        self._most = [most.get(query, 1.0) for query in streams]
        self._rest = Rest()
        self.overlap = 1.0

    def __getitem__(self, query: str) -> QueryCost:
        return self._known[query]

    def learn(
        self,
        seen: Mapping[str, QueryObservation],
        consumed: Mapping[str, int],
        relevant: int,
        explained_ms: float | None,
        *,
        warm: bool = True,
    ) -> None:
        """Takes a batch into account.

        Args:
            seen: by query.
            consumed: records, by stream.
            relevant: events that any query could use.
            explained_ms: see `QueryCost.learn`.
            warm: see `QueryCost.learn`.
        """
        everything = sum(consumed.values())
        if everything <= 0:
            return
        for query, known in self._known.items():
            records, others = round(self._records_of(query, consumed)), not any(name in consumed for name in self._streams[query])
            known.learn(
                seen.get(query, QueryObservation()),
                records,
                explained_ms,
                warm=warm,
                reads_others=others,
                judged=query in self._judged,
            )
        self._rest.learn((one for query, one in seen.items() if query not in self._known), everything)
        candidates = sum(one.candidates for one in seen.values())
        if candidates > 0:
            self.overlap = followed(self.overlap, min(1.0, relevant / candidates))

    def load(self, records: Mapping[str, float], *, settled: bool = True) -> Load:
        """What so many records are.

        Args:
            records: by stream.
            settled: whether the ratios have been what they are for a window: a query that keeps half of its events then holds them against half as many. Otherwise its state is what it is now.
        """
        known = list(self._known.values())
        candidates = [one.candidates(self._records_of(query, records)) for query, one in self._known.items()]
        return Load(
            float(sum(records.values())),
            np.array(candidates, dtype=np.float64),
            np.array([0.0 if one.reference else one.effect for one in known], dtype=np.float64),
            sum(one.base_ms for one in known) + self._rest.base_ms,
            np.array([one.whole_ms for one in known], dtype=np.float64),
            curves([one.elasticity for one in known]),
            np.array([bool(one.newest_matches) for one in known], dtype=np.bool_),
            np.array([one.judging_ms(judged=query in self._judged) for query, one in self._known.items()], dtype=np.float64),
            None if settled else State(np.array([one.retained for one in known]), np.array([one.newest_matches for one in known])),
            {row: one.by_matches(most) for row, (one, most) in enumerate(zip(known, self._most, strict=True)) if one.reference},
            self._in_place,
            self._rest,
            self.overlap,
            np.array([one.scatter if one.reference else one.lumpy for one in known], dtype=np.float64),
        )

    @property
    def of_matches(self) -> set[str]:
        """Queries whose partial matches are what is shed."""
        return {query for query, known in self._known.items() if known.reference}

    def rows(self, ratios: Mapping[str, float]) -> NDArray[np.float64]:
        """float64 (queries,): ratios in the order of `queries`; 0 where there is none."""
        return np.array([ratios.get(query, 0.0) for query in self.queries], dtype=np.float64)

    def snapshot(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "queries": {query: asdict(known) for query, known in self._known.items()},
            "rest": asdict(self._rest),
            "overlap": self.overlap,
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Goes on from a snapshot, with the queries that there still are."""
        self._known |= {query: restored(values) for query, values in plain["queries"].items() if query in self._known}
        self._rest, self.overlap = remembered(Rest, plain["rest"]), plain["overlap"]

    def _records_of(self, query: str, records: Mapping[str, float]) -> float:
        """Of the query's streams; of all streams, where it reads what other queries emit."""
        own = [records[name] for name in self._streams[query] if name in records]
        return sum(own) if own else sum(records.values())
