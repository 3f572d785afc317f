"""Streams with known ground truth, for the quick start, tests and benchmarks. Pure: a seed in, arrays out; no clock, no files, no Kafka."""

from __future__ import annotations

from collections.abc import Callable

from app.local.generators.retail import retail
from app.local.generators.sensors import sensors
from app.local.generators.stocks import stocks
from app.local.generators.stream import GeneratedStream, Truth
from app.local.generators.vehicles import vehicles

KINDS: dict[str, Callable[[int, int, int, float, int], GeneratedStream]] = {
    "retail": retail,
    "stocks": stocks,
    "sensors": sensors,
    "vehicles": vehicles,
}
BATCH_ROWS = 65_536


def generate(  # noqa: PLR0917 - the order in which one would say them
    kind: str, events: int, seed: int = 0, start_ms: int = 0, rate_per_s: float = 1000.0, batch_rows: int = BATCH_ROWS
) -> GeneratedStream:
    """So many events of a kind of stream, and what the shipped queries have to find in them.

    Args:
        kind: one of `KINDS`.
        events: how many.
        seed: equal seeds, equal streams.
        start_ms: when the stream begins, milliseconds since the epoch.
        rate_per_s: events per second of *event* time. Whoever sends them faster or slower shows them in time-lapse or slow motion.
        batch_rows: most rows per batch.

    >>> stream = generate("retail", 1000, seed=7)
    >>> sum(len(batch) for batch in stream.batches), sorted(stream.truth)
    (1000, ['counterfeit-path', 'misplaced-item', 'shoplifting'])
    """
    return KINDS[kind](events, seed, start_ms, rate_per_s, batch_rows)


__all__ = ["BATCH_ROWS", "KINDS", "GeneratedStream", "Truth", "generate"]
