"""What is kept free of a bound, because batches sometimes take longer than their work explains: a margin for what was late, and room for what batches miss.

A garbage collection, a broker that is busy, work that nothing foretold: how much of it there is shows only in events that were late, and a bound is kept for all but one in a hundred events (p99), not on average.
So what was late is fed back: after every batch that shed the margin grows with the share of its events that were late, and shrinks by the share that may be. This is adaptive conformal inference (Gibbs and Candès, NeurIPS 2021, equation 2)
with the margin in the place of the quantile: over many batches about that share is late, whatever stalls look like and however they change, and a machine that never stalls has no margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

ALLOWED = 0.0025
"""Share of events that may be late: a quarter of what p99 allows. A minute of batches is no long time, and there are more matches where batches are long."""
STEP = 0.2
"""Of the bound, by which the margin grows with a batch that is late altogether: one that stalls for a quarter of the bound is late to an eighth, which makes 2 %, and four dozen others without take them away again. Larger steps keep a bound sooner where stalls begin, and move the ratio the more."""
FADING = 0.01
"""Of the margin, with every batch: one that a cold start has made (a fifth of the bound) is half of that behind twenty seconds. Where stalls ask for a tenth of the bound for good, half of a percent more is late for it."""
MOST_LATE = 0.4
"""Of a batch: one of which more is late tells of an overload, and not how long stalls are."""
LARGEST = 0.2
"""Of the bound is kept free at most: where every other batch stalls for longer, the bound is not kept by shedding."""
STRAYS = 4.0
"""So many times what batches miss what they were to take by, on average: three standard deviations, if it is chance. A batch that is longer by that leaves the next one its whole share."""
MOST_ROOM = 0.25
"""Of the plateau at most: where batches miss what they were to take by more, nothing is known of them."""
PRICE = 0.05
"""Of the events that would be kept without room, at most: where what costs little goes first, a tenth less work is a third of what is kept, and that may be beyond the knee of what is found (`python -m ops.bench.overload.virtual`)."""


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


def free_of(plateau_ms: float, bound_ms: float, fixed_ms: float, missed: float, exponent: float) -> float:
    """What of the plateau two batches may take together, so that one that takes longer than it was to is followed by one that can be let in with all that it brings.

    Without such room every tenth batch was let in with less, and these are most of what the ratio deviates by (`python -m ops.bench.overload.virtual`). A batch that should take L and takes ``x`` times that is followed by one of what came
    meanwhile, ``fixed + x (L - fixed)``; both together are to stay below the bound. So the more of a batch is there whatever is in it, the less room it needs, and that is where room would cost most of the events. It never costs more of them than `PRICE`:
    in batches of the length L there are ``1 - fixed / L`` for what arrives, and that goes with ``kept ** exponent``.

    Args:
        plateau_ms: where the latency is to settle.
        bound_ms: what it must not exceed.
        fixed_ms: of a batch, whatever is in it.
        missed: by how much batches take longer or shorter than they were to, as a logarithm, on average.
        exponent: of the work by the share that is kept; 0: it does not follow, and no room can be bought.

    >>> [round(free_of(800, 1000, fixed_ms, missed, 2)) for fixed_ms, missed in ((200, 0.0), (200, 0.12), (300, 0.12), (200, 0.5))]
    [800, 729, 775, 729]
    >>> [round(free_of(800, 1000, 200, 0.12, exponent)) for exponent in (2.0, 1.0, 0.5, 0.1)]
    [729, 762, 780, 796]
    >>> free_of(800, 1000, 0, 0.12, 0.0)
    800
    """
    if exponent <= 0:
        return plateau_ms
    longer = exp(STRAYS * missed)
    roomy_ms = max((1 - MOST_ROOM) * plateau_ms, (bound_ms + (longer - 1) * fixed_ms) / longer)
    work = max(0.0, 1 - 2 * fixed_ms / plateau_ms) * (1 - PRICE) ** exponent
    return min(plateau_ms, max(roomy_ms, 2 * fixed_ms / (1 - work)))


def learn_margins(margins: dict[str, float], late: Mapping[int, float]) -> None:
    """Changes margins after a batch.

    Args:
        margins: ms, by bound (ms, as text: they go through snapshots).
        late: by bound that somebody shed for, the share of the batch's events that were later.

    >>> margins = {"2000": 1.0, "9000": 7.0}
    >>> learn_margins(margins, {1000: 0.1, 2000: 0.0})
    >>> margins
    {'2000': 0.0, '9000': 7.0, '1000': 19.5}
    """
    for bound_ms, share in sorted(late.items()):
        margin_ms = (1 - FADING) * margins.get(str(bound_ms), 0.0) + STEP * bound_ms * (min(share, MOST_LATE) - ALLOWED)
        margins[str(bound_ms)] = min(LARGEST * bound_ms, max(0.0, margin_ms))
