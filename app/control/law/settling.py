"""From the ratios that hold to those that are wanted: neither after every noise nor too late.

Where the ratios that hold are about right, what is wanted instead is noise for the most part: where little work is a large share of the events, a twentieth more or less of it would be half of the ratio. Then what holds is the mean of what was wanted
since. What one long batch leaves behind is admission's business, so no batch counts as more than `JUMP`. Otherwise small changes of what is kept are gone half of the way, large ones at
once; downwards in steps, as long as it is not clear that there is no overload.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import exp

from app.config.settings import Watchdog as WatchdogSettings
from app.control.law.running import JUMP, Running, smoothed
from app.control.law.sharing import FINE, Ratios

FOLLOW = 0.5
"""How much of the way to a slightly different ratio is gone at once; what keeps `JUMP` times as much, or as little, is another load."""
ABOUT = (0.86, 1.15)
"""Of what a batch may take: where what is foreseen at the ratios that hold lies between, on average, they are about right."""
ADJUSTABLE = 0.4
"""Of what lies between the shortest batches that there are and what they may take: with less of it they are not, however close the sum is, since most of it is there whatever is shed."""
LATELY = 2.5
"""Times what two batches may take together (which is five of them): that long is remembered in that average. Three batches in a row that are a little too long are no other load, six are; and one that takes as long as five does tell of one."""
HOLDING_MS = 30_000.0
"""The mean of what was wanted forgets what is older."""


@dataclass(frozen=True, slots=True)
class Strain:
    """What coming batches take, as a multiple of what they may.

    Attributes:
        held: at the ratios that hold.
        least: at the most that may be shed.
        plateau_ms: what two of them may take together.
    """

    held: float
    least: float
    plateau_ms: float


def settle(
    running: Running,
    wanted: Ratios,
    strain: Strain,
    settings: WatchdogSettings,
    *,
    of_matches: Collection[str],
    since_ms: float,
    clear: bool,
) -> None:
    """Moves what is aimed at.

    Args:
        running: what holds; ``strain``, ``settled`` and ``aimed`` are changed.
        wanted: ratios that would be right now.
        strain: see `Strain`.
        settings: of the watchdog: its steps.
        of_matches: queries that shed partial matches: what a batch costs follows their ratios late, so they never wait.
        since_ms: since the decision before.
        clear: there is no overload.
    """
    running.strain = smoothed(running.strain, min(strain.held, JUMP), 1 - exp(-since_ms / (LATELY * strain.plateau_ms)))
    lowest = max(ABOUT[0], strain.least + ADJUSTABLE * (1 - strain.least))
    about_right = lowest <= running.strain <= ABOUT[1] and not clear
    running.settled = running.settled + 1 if about_right else 0
    newest = max(min(1.0, since_ms / HOLDING_MS), 1 / (1 + running.settled))
    aimed = {}
    for query, asked in sorted(wanted.items()):
        before, ratio = running.steady.get(query, 0.0), asked
        if about_right and running.aimed.get(query) and query not in of_matches:
            before = running.aimed[query]
            ratio = before + newest * (asked - before)
        elif max(asked, before) < 1 and max(1 - asked, 1 - before) <= JUMP * min(1 - asked, 1 - before):
            ratio = before + FOLLOW * (asked - before) if abs(asked - before) > min(settings.smallest_step, (1 - before) / FINE) else asked
        fall = max(settings.largest_fall, FOLLOW * (before - asked))
        aimed[query] = ratio if clear else max(ratio, before - fall)
    running.aimed = aimed
