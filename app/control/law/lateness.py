"""What is kept free of a bound, because batches sometimes take longer than their work explains: a margin for what was late, and room for what batches miss.

A garbage collection, a broker that is busy, work that nothing foretold: how much of it there is shows only in events that were late, and a bound is kept for all but one in a hundred events (p99), not on average.
So what was late is fed back: after every batch that shed the margin grows with the share of its events that were late, and shrinks by the share that may be. This is adaptive conformal inference (Gibbs and Candès, NeurIPS 2021, equation 2)
with the margin in the place of the quantile: over many batches just that share is late, whatever stalls look like and however they change, and a machine that never stalls has no margin.
"""

from __future__ import annotations

from collections.abc import Mapping

ALLOWED = 0.005
"""Share of events that may be late: half of what p99 allows, since a minute of batches is no long time."""
STEP = 0.1
"""Of the bound, by which the margin grows with a batch that is late altogether: one that stalls for a quarter of the bound is late to an eighth, which makes 1 %, and two dozen others without take them away again. Larger steps keep a bound sooner where stalls begin, and move the ratio for half a minute after each."""
MOST_LATE = 0.4
"""Of a batch: one of which more is late tells of an overload, and not how long stalls are."""
LARGEST = 0.2
"""Of the bound is kept free at most: where every other batch stalls for longer, the bound is not kept by shedding."""
ROOM, MOST_ROOM = 1.25, 0.25
"""So many times what batches miss what they were to take by, on average: that is their standard deviation, if it is chance. And of the plateau at most: where they miss it by more, nothing is known of them."""


def late_share(oldest_ms: float, newest_ms: float, bound_ms: float) -> float:
    """Share of a batch's events that were late, if they came evenly.

    Args:
        oldest_ms: latency of the first of them.
        newest_ms: and of the last.
        bound_ms: what they may have.

    >>> late_share(1100, 600, 1000), late_share(1100, 600, 1200), late_share(1100, 1050, 1000)
    (0.2, 0.0, 1.0)
    """
    if newest_ms >= bound_ms:
        return 1.0
    return max(0.0, (oldest_ms - bound_ms) / max(1e-9, oldest_ms - newest_ms))


def room(missed: float) -> float:
    """Share of the plateau that is left free for batches that take longer than they were to.

    Then most of them are followed by one that can be let in with all that it brings. Without it every tenth batch was let in with less, and these are most of what the ratio deviates by (`python -m ops.bench.overload.virtual`).

    Args:
        missed: by how much they do, as a logarithm.

    >>> room(0.1), room(0.7)
    (0.125, 0.25)
    """
    return min(MOST_ROOM, ROOM * missed)


def learn_margins(margins: dict[str, float], late: Mapping[int, float]) -> None:
    """Changes margins after a batch.

    Args:
        margins: ms, by bound (ms, as text: they go through snapshots).
        late: by bound that somebody shed for, the share of the batch's events that were later.

    >>> margins = {"2000": 1.0, "9000": 7.0}
    >>> learn_margins(margins, {1000: 0.1, 2000: 0.0})
    >>> margins
    {'2000': 0.0, '9000': 7.0, '1000': 9.5}
    """
    for bound_ms, share in sorted(late.items()):
        margin_ms = margins.get(str(bound_ms), 0.0) + STEP * bound_ms * (min(share, MOST_LATE) - ALLOWED)
        margins[str(bound_ms)] = min(LARGEST * bound_ms, max(0.0, margin_ms))
