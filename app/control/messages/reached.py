"""How far streams have come before a batch, where that is further than the batch itself can tell: topic partitions that were left out as idle speak again, but what is past is past.

Buckets never let their watermarks fall. The ingress has no memory, so the directive tells it: otherwise an event that is late would be found late by every bucket that it is for, and be told as often.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.bucket.hold import NEVER, Progress, TimeRules, stream_watermark
from app.control.messages.directives import Directive


def progress_by(directive: Directive, times: Mapping[int, int]) -> Progress:
    """How far time is by what a directive says of its batch's topic partitions, given the greatest times (ms) of these."""
    return Progress(times, frozenset(directive.sources), frozenset(directive.idle), directive.stream_times)


def reached(before: Directive | None, now: Progress, streams: Mapping[str, frozenset[int]]) -> dict[str, int]:
    """By stream the time that its watermark has come to, ms, without its allowed lateness; streams of which the batch knows as much by itself are missing.

    Args:
        before: the directive of the batch before.
        now: what the batch knows by itself.
        streams: the numbers of each stream's topics.
    """
    if before is None:
        return {}
    past = progress_by(before, now.greatest_times)
    found = {}
    for stream, topics in streams.items():
        rules = TimeRules(stream, topics=topics)
        own = {source: time for source, time in now.greatest_times.items() if rules.owns(source)}
        come = max(before.reached.get(stream, NEVER), stream_watermark(rules, own, past))
        if come > max(NEVER, stream_watermark(rules, own, now)):
            found[stream] = come
    return found
