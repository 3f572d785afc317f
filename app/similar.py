"""Did you mean …? Names close to one that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like the given one, or None.

    >>> closest("tagid", ["store_id", "tag_id"]), closest("x", ["store_id"])
    ('tag_id', None)
    """
    by_folded = {candidate.casefold().replace("_", ""): candidate for candidate in known}
    found = get_close_matches(name.casefold().replace("_", ""), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str], owner: str = "", limit: int = 12) -> str | None:
    """A hint with the closest name and the list of all.

    >>> did_you_mean("tagid", ["tag_id", "exit_id"], "ExitReading")
    'did you mean "tag_id"? ExitReading has exit_id, tag_id'
    """
    names = sorted(set(known))
    if not names:
        return f"{owner} has none" if owner else None
    nearest = closest(name, names)
    listed = ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
    listing = f"{owner} has {listed}" if owner else f"known are {listed}"
    return f'did you mean "{nearest}"? {listing}' if nearest else listing
