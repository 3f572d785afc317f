"""How a query's work follows the share of events that it keeps: less than in proportion where what costs little is dropped first.

    work per candidate = c · kept ^ exponent

once what events are held against has followed. The exponent is another one in each *piece*: where a half to all, a quarter to a half, … of the events are kept. A shedder that keeps what costs most saves nothing until nine tenths are gone, and then as much as it drops. Dropping half of the events at random halves the work of a query that looks at each by itself, and quarters that of one that joins them. A shedder that drops what is in no match leaves what costs most:
then a tenth less work may be half of the events, and a law that takes work for proportional comes to the bound in ten steps instead of one, while batches are late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log

import numpy as np
from numpy.typing import NDArray

PIECES = 7
"""The last one is all below a 64th."""
_HALF = log(2)
_BEGINS = _HALF * np.arange(PIECES)
_LONGEST = np.array([-_HALF] * (PIECES - 1) + [-np.inf])
JOINED = 2.0
"""Exponent before anything is known: of a join of which every event is as dear as any."""
LEAST = 0.1
"""Exponents below say that shedding is all but in vain; nothing would be enough."""
LEAST_SHARE = 1e-4
"""Less than that is taken for so much."""
LATELY = 0.3
"""Weight of the newest batch in what was kept and spent of late: a batch is held against that. Events that become dearer raise the ratio, so over a minute more work goes with less kept; within three batches they hardly do."""
TIED = 0.15
"""What an exponent is taken for before anything is known counts as much as a dozen batches that keep a tenth less, or more, than those before them; for good, since batches that differ by less say nothing."""
MOST_KNOWN = 8.0
"""The most that what was seen counts for; beyond, the older is worth less: at another time of day events may cost otherwise. A long overload at one ratio forgets nothing."""


def by_piece(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of the logarithm of a share lies in each piece, float64 (…, pieces).

    >>> by_piece(np.array([1.0, 0.3]))[:, :3].round(2).tolist()
    [[0.0, 0.0, 0.0], [-0.69, -0.51, 0.0]]
    """
    logs = np.log(np.maximum(LEAST_SHARE, shares))
    return np.minimum(np.maximum(logs[..., None] + _BEGINS, _LONGEST), 0.0)  # np.clip takes three times as long where there are few


def left(part: NDArray[np.float64], met: NDArray[np.float64], curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the work of all events of some queries so much is left, float64 (queries,).

    Args:
        part: float64 (queries,), share of the events that is kept; work goes with it at once, but not more than in proportion.
        met: float64 (queries,), share that the state was made from: what is more than in proportion is so because there is less to be held against. 1 of a query that has no state, more than 1 of one with more in it than all events ever were.
        curve: float64 (queries, pieces), exponents.
    """
    at_once = np.minimum(1.0, curve)
    of_part, of_met = by_piece(np.array([part, met]))
    beyond = np.log(np.maximum(1.0, met)) * (curve - at_once)[..., 0]
    found: NDArray[np.float64] = np.exp((of_part * at_once + of_met * (curve - at_once)).sum(axis=-1) + beyond)
    return np.where(part > 0, found, 0.0)


@dataclass(slots=True)
class Elasticity:
    """Learned by what differs from the batches just before, unshed ones among them; goes through snapshots as its fields.

    Attributes:
        exponent: of the work by the share that is kept, in all pieces together.
        share: logarithm of the share that was kept, of late.
        work: logarithm of the work per candidate, of late; None before there was any.
        spread: sum of the squared differences of shares.
        common: sum of their products with those of the work.
        spreads: the same of each piece: a difference counts in those that it spans.
        commons: the same.
    """

    exponent: float = JOINED
    share: float = 0.0
    work: float | None = None
    spread: float = 0.0
    common: float = 0.0
    spreads: list[float] = field(default_factory=lambda: [0.0] * PIECES)
    commons: list[float] = field(default_factory=lambda: [0.0] * PIECES)

    @property
    def curve(self) -> NDArray[np.float64]:
        """float64 (pieces,): the exponent of each; where little was seen, that of all."""
        return curves([self])[0]

    def left(self, kept: float, met: float) -> float:
        """See `left`."""
        return float(left(np.array([kept]), np.array([met]), self.curve)[0])

    def learn(self, kept: float, each_ms: float) -> None:
        """Takes a batch into account whose state had followed.

        Args:
            kept: share of the query's candidates.
            each_ms: work per candidate.
        """
        if each_ms <= 0:
            return
        share, work = log(max(LEAST_SHARE, kept)), log(each_ms)
        if self.work is None:
            self.share, self.work = share, work
            return
        less, cheaper = share - self.share, work - self.work
        self._learn_pieces(kept, cheaper)
        self.share, self.work = self.share + LATELY * less, self.work + LATELY * cheaper
        self.spread, self.common = self.spread + less**2, self.common + less * cheaper
        if self.spread > MOST_KNOWN:
            self.spread, self.common = MOST_KNOWN, self.common * MOST_KNOWN / self.spread
        self.exponent = min(JOINED, max(LEAST, (self.common + TIED * JOINED) / (self.spread + TIED)))

    def _learn_pieces(self, kept: float, cheaper: float) -> None:
        parts = -np.diff(by_piece(np.array([kept, exp(self.share)])), axis=0)[0]
        less = float(parts.sum())
        if less == 0:
            return
        weights, known = parts**2, self.curve
        seen = known + (cheaper - float(known @ parts)) / less  # what they miss together is missed by each alike
        spreads, commons = np.array(self.spreads) + weights, np.array(self.commons) + weights * seen
        too_many = np.maximum(1.0, spreads / MOST_KNOWN)
        self.spreads, self.commons = (spreads / too_many).tolist(), (commons / too_many).tolist()


def curves(known: Sequence[Elasticity]) -> NDArray[np.float64]:
    """float64 (queries, pieces): `Elasticity.curve` of each, at once; every decision asks for all of them several times."""
    commons, spreads = (
        np.array(sums, dtype=np.float64).reshape(-1, PIECES) for sums in ([one.commons for one in known], [one.spreads for one in known])
    )
    exponents = np.array([one.exponent for one in known], dtype=np.float64)[:, None]
    return np.clip((commons + TIED * exponents) / (spreads + TIED), LEAST, JOINED)
