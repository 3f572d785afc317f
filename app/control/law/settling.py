"""From the ratios that hold to those that are wanted: neither after every noise nor too late.

Where the ratios that hold are about right, a small part of the way is gone: where little work is a large share of the events, a twentieth more or less of it would be half of the ratio. What one long batch leaves behind is admission's
business, so no batch counts as more than `JUMP`. Otherwise small changes of what is kept are gone half of the way, large ones at once; downwards in steps, as long as it is not clear that there is no overload.
"""

from __future__ import annotations

from collections.abc import Collection

from app.config.settings import Watchdog as WatchdogSettings
from app.control.law.running import JUMP, Running, smoothed
from app.control.law.sharing import FINE, Ratios

FOLLOW = 0.5
"""How much of the way to a slightly different ratio is gone at once; what keeps `JUMP` times as much, or as little, is another load."""
ABOUT = (0.86, 1.15)
"""Of what a batch may take: where what is foreseen at the ratios that hold lies between, on average, what is wanted instead is noise for the most part."""
LATELY = 0.15
"""Weight of the newest decision in that average: three long batches in a row are no other load, seven are."""
SLOWLY = 0.0125
"""How much of the way is gone then, in the end: at first what holds is the mean of what was wanted since it is about right (a half, a third, a quarter of the way), or whatever a change of the load began with would hold for half a minute."""


def settle(
    running: Running, wanted: Ratios, strain: float, settings: WatchdogSettings, *, of_matches: Collection[str], clear: bool
) -> None:
    """Moves what is aimed at.

    Args:
        running: what holds; ``strain``, ``about_right`` and ``aimed`` are changed.
        wanted: ratios that would be right now.
        strain: what is foreseen at those that hold, as a multiple of what a batch may take.
        settings: of the watchdog: its steps.
        of_matches: queries that shed partial matches: what a batch costs follows their ratios late, so they never wait.
        clear: there is no overload.
    """
    running.strain = smoothed(running.strain, min(strain, JUMP), LATELY)
    about_right = ABOUT[0] <= running.strain <= ABOUT[1]
    running.about_right = running.about_right + 1 if about_right else 0
    slowly = max(SLOWLY, 1 / (1 + running.about_right)) if about_right else 1.0
    aimed = {}
    for query, asked in sorted(wanted.items()):
        before, ratio = running.steady.get(query, 0.0), asked
        if about_right and query not in of_matches:
            before = running.aimed.get(query, before)
            ratio = before + slowly * (asked - before)
        elif max(asked, before) < 1 and max(1 - asked, 1 - before) <= JUMP * min(1 - asked, 1 - before):
            ratio = before + FOLLOW * (asked - before) if abs(asked - before) > min(settings.smallest_step, (1 - before) / FINE) else asked
        fall = max(settings.largest_fall, FOLLOW * (before - asked))
        aimed[query] = ratio if clear else max(ratio, before - fall)
    running.aimed = aimed
