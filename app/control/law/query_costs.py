"""What all queries of a catalog cost: one by one those that may shed, together those that never do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from math import nan
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.control.law.elasticity import curves
from app.control.law.load import Filling, Load, Rest, State, records_of
from app.control.law.query_cost import QueryCost, QueryObservation, restored
from app.control.law.running import followed, remembered


class QueryCosts:
    """All queries of a catalog: one by one those that may shed, together those that never do.

    Args:
        streams: by query that may shed, the streams that it reads.
        judged: of them, those on whose matches verdicts are given while they shed.
        most: of them, the largest share of their partial matches that may go.
        in_place: of them, those all of whose events are handed over whatever is shed.
        windows_ms: of them, how long what events add to their states stays there at most; missing where no time says.

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
        windows_ms: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.queries = tuple(streams)
        self._streams = {query: tuple(names) for query, names in streams.items()}
        self._read = sorted({*self._streams.values()})
        self._reads = np.array([self._read.index(names) for names in self._streams.values()], dtype=np.intp)
        self._known = {query: QueryCost() for query in streams}
        self._judged = frozenset(judged)
        self._in_place = np.array([query in in_place for query in streams], dtype=np.bool_)
        self._windows_ms = np.array([windows_ms.get(query, nan) for query in streams], dtype=np.float64)
        self._most = [most.get(query, 1.0) for query in streams]
        self._rest = Rest()
        self._gathered: tuple[Load, Filling] | None = None
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
        period_ms: float = 0.0,
    ) -> None:
        """Takes a batch into account.

        Args:
            seen: by query.
            consumed: records, by stream.
            relevant: events that any query could use.
            explained_ms: see `QueryCost.learn`.
            warm: see `QueryCost.learn`.
            period_ms: see `QueryCost.learn`.
        """
        everything = sum(consumed.values())
        if everything <= 0:
            return
        self._gathered = None
        for query, known in self._known.items():
            records, others = round(records_of(self._streams[query], consumed)), not any(name in consumed for name in self._streams[query])
            known.learn(
                seen.get(query, QueryObservation()),
                records,
                explained_ms,
                warm=warm,
                reads_others=others,
                judged=query in self._judged,
                period_ms=period_ms,
            )
        self._rest.learn((one for query, one in seen.items() if query not in self._known), everything)
        candidates = sum(one.candidates for one in seen.values())
        if candidates > 0:
            self.overlap = followed(self.overlap, min(1.0, relevant / candidates))

    def load(self, records: Mapping[str, float], *, settled: bool = True, span_ms: float = 0.0) -> Load:
        """What so many records are.

        Args:
            records: by stream.
            settled: whether the ratios have been what they are for a window: a query that keeps half of its events then holds them against half as many. Otherwise its state is what it is now.
            span_ms: of a state as it is now: in which they have come, where that may be many times what it holds; see `Filling.crowding`. 0: not asked.
        """
        known, filling = self._per_record()
        candidates = known.candidates * np.array([records_of(streams, records) for streams in self._read])[self._reads]
        state = None if settled else known.state
        if state is not None and span_ms > 0:
            state = replace(state, crowding=filling.crowding(span_ms))
        return replace(known, records=float(sum(records.values())), candidates=candidates, state=state)

    def _per_record(self) -> tuple[Load, Filling]:
        """The load of one record of each query's streams, its state as it is now, and what is known of full ones. Between two batches nothing of it changes, and a decision asks for loads some seventy times: of a thousand queries, gathering it each time was 0.35 of 0.6 s."""
        if self._gathered is None:
            known = list(self._known.values())
            load = Load(
                1.0,
                np.array([one.share or 0.0 for one in known], dtype=np.float64),
                np.array([0.0 if one.reference else one.effect for one in known], dtype=np.float64),
                sum(one.base_ms for one in known) + self._rest.base_ms,
                np.array([one.whole_ms for one in known], dtype=np.float64),
                curves([one.elasticity for one in known]),
                np.array([bool(one.newest_matches or one.full) for one in known], dtype=np.bool_),
                np.array([one.judging_ms(judged=query in self._judged) for query, one in self._known.items()], dtype=np.float64),
                State(
                    np.array([one.retained for one in known], dtype=np.float64),
                    np.array([one.newest_matches for one in known], dtype=np.float64),
                ),
                {row: one.work_by_ratio(most) for row, (one, most) in enumerate(zip(known, self._most, strict=True)) if one.reference},
                self._in_place,
                self._rest,
                self.overlap,
                np.array([one.surprises.scatter if one.reference else one.surprises.lumpy for one in known], dtype=np.float64),
            )
            self._gathered = (
                load,
                Filling(
                    np.array([one.full for one in known], dtype=np.float64),
                    np.array([one.dense for one in known], dtype=np.float64),
                    np.array([one.born for one in known], dtype=np.float64),
                    self._windows_ms,
                ),
            )
        return self._gathered

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

    def restore(self, plain: Mapping[str, Any], changed: Collection[str] = ()) -> None:
        """Goes on from a snapshot, with the queries that there still are.

        Args:
            plain: the snapshot.
            changed: queries that shed partial matches from now on instead of events, or the other way round.
        """
        self._known |= {query: restored(values) for query, values in plain["queries"].items() if query in self._known}
        for query in changed:
            self._known[query].of_another_shedder()
        self._gathered = None
        self._rest, self.overlap = remembered(Rest, plain["rest"]), plain["overlap"]
