"""How the application, and each query, is: one word with its reasons, the worst that holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.console.words import SPACE, duration, share
from app.control.shown.query_set import GOOD

Word = Literal["not ready", "bound broken", "reload failed", "shedding", "healthy"]

LATE_RATIO = 0.05
"""Of the composite events of the last minute. Counted, since no histogram tells a bound between two of its buckets (`ops/decisions/0043`)."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The word, and sentences that say why; none where all is well."""

    word: str
    reasons: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {"word": self.word, "reasons": list(self.reasons)}


def of_query(query: Mapping[str, Any]) -> Condition:
    """Of a query, as the overview tells of it: ``bound broken`` by the composite events of the last minute, ``broken`` by its file, ``shedding``, or ``healthy``.

    >>> of_query({"query": "q", "status": "running", "latency": {"late": 6, "composite_events": 100, "bound_ms": 1000}}).word
    'bound broken'
    """
    if query["status"] != "running":
        return Condition(query["status"])
    latency = query.get("latency", {})
    late, found, bound_ms = latency.get("late", 0), latency.get("composite_events", 0), latency.get("bound_ms")
    reasons, word = [], "healthy"
    if query.get("drop_ratio"):
        word = "shedding"
        reasons.append(f"sheds {share(query['drop_ratio'])} of its {query['shedding']['what']}".replace(SPACE, " "))
    if query.get("broken"):
        word = "broken"
        reasons.append("its file has errors; an earlier version runs")
    if bound_ms is not None and late > LATE_RATIO * found:
        word = "bound broken"
        reasons.append(
            f"{share(late / found)} of the composite events of the last minute came after its latency bound of {duration(bound_ms)}"
        )
    return Condition(word, tuple(reasons))


def of_application(failed: Sequence[str], reading: Mapping[str, Any], queries: Sequence[Mapping[str, Any]]) -> Condition:
    """Of the whole.

    Args:
        failed: checks of readiness that are bad, in words.
        reading: the last reading of the query files, as `/queries` tells it.
        queries: with their conditions.
    """
    if failed:
        return Condition("not ready", tuple(failed))
    of = {word: [one["query"] for one in queries if one["condition"]["word"] == word] for word in ("bound broken", "shedding")}
    late, shedding = of["bound broken"], sorted(one["query"] for one in queries if one.get("drop_ratio"))
    found: list[tuple[Word, str]] = []
    if late:
        found.append(
            (
                "bound broken",
                f"{listed(late)} {'is' if len(late) == 1 else 'are'} later than {'its' if len(late) == 1 else 'their'} latency bound",
            )
        )
    if reading["outcome"] not in GOOD:
        found.append(("reload failed", _READINGS.get(reading["outcome"], "the query files could not be read")))
    if shedding:
        found.append(("shedding", f"{listed(shedding)} {'sheds' if len(shedding) == 1 else 'shed'} load"))
    return Condition(found[0][0], tuple(reason for _, reason in found)) if found else Condition("healthy")


_READINGS = {
    "broken": "the query files have errors: what ran before goes on",
    "needs_topics": "the query files name topics that do not exist: what ran before goes on until somebody creates them",
    "needs_restart": "the query files say what needs a restart: what ran before goes on",
    "failed": "the query files could not be opened because a dependency did not answer: it is tried again",
}


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1] if names else "")))
