"""A chain of stores with tagged items: delivered, put on shelves, picked up, carried about, paid for, stolen, misplaced, counterfeit.

Every item makes one journey: a script of readings with random pauses. What a script means for the shipped queries is known
beforehand, so their precision and recall can be told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.events.types import Kind
from app.local.generators.stream import Cells, GeneratedStream, Nothing, Table, Text, Truth, stream_of

BACKROOM, SHELF, OTHER_SHELF, COUNTER, EXIT = range(5)


@dataclass(frozen=True, slots=True)
class Script:
    """One kind of journey: its readings in order, and its share of all journeys."""

    steps: tuple[int, ...]
    share: float
    stolen: bool = False


SCRIPTS: dict[str, Script] = {
    "bought": Script((BACKROOM, SHELF, COUNTER, EXIT), 0.5),
    "bought after browsing": Script((BACKROOM, SHELF, SHELF, COUNTER, EXIT), 0.2),
    "brought back and bought": Script((BACKROOM, SHELF, COUNTER, SHELF, COUNTER, EXIT), 0.05),
    "put back": Script((BACKROOM, SHELF, SHELF), 0.1),
    "carried off and returned": Script((BACKROOM, SHELF, OTHER_SHELF, SHELF), 0.04),
    "misplaced": Script((BACKROOM, SHELF, OTHER_SHELF), 0.04),
    "stolen": Script((BACKROOM, SHELF, EXIT), 0.02, stolen=True),
    "stolen after browsing": Script((BACKROOM, SHELF, SHELF, EXIT), 0.01, stolen=True),
    "brought back and stolen": Script((BACKROOM, SHELF, COUNTER, SHELF, EXIT), 0.01, stolen=True),
    "counterfeit": Script((SHELF, COUNTER, EXIT), 0.03),
}
NAMES = tuple(SCRIPTS)
LONGEST = max(len(script.steps) for script in SCRIPTS.values())
PRODUCTS = tuple(name.encode() for name in ("jeans", "shirt", "jacket", "dress", "shoes", "belt", "scarf", "hat", "socks", "coat"))
MISPLACED_AFTER_MS = 3_600_000
"""The window of the query misplaced-item: an item that comes back within it is not misplaced."""
LONGEST_STEP_MS = MISPLACED_AFTER_MS // 6
"""Three steps, each up to 1.5 times the mean, must fit into that window, or the truth about returned items would not hold."""


def retail(events: int, seed: int, start_ms: int, rate_per_s: float, batch_rows: int, *, prefix: str = "T") -> GeneratedStream:
    """Readings of many items, with the truth about shoplifting, misplaced-item and counterfeit-path.

    Args:
        events: how many; journeys that the end cuts off are judged by what was seen of them.
        seed: equal seeds, equal streams.
        start_ms: time of the first journey, milliseconds since the epoch.
        rate_per_s: readings per second of event time, on average.
        batch_rows: most rows per batch.
        prefix: beginning of every ``tag_id``, to tell the items of several streams apart.

    Returns:
        Events of ShelfReading, CounterReading, ExitReading and BackroomReading in order of time.
    """
    random = np.random.default_rng([seed, 1])
    shares = np.array([script.share for script in SCRIPTS.values()])
    mean_steps = float(sum(len(s.steps) * s.share for s in SCRIPTS.values()) / shares.sum())
    journeys = max(1, int(events / mean_steps * 1.02) + 8)
    duration_ms = max(1.0, events / rate_per_s * 1000)
    step_ms = min(240_000.0, max(1.0, duration_ms / 40), LONGEST_STEP_MS)
    kind = random.choice(len(NAMES), journeys, p=shares / shares.sum())
    begin = np.sort(random.uniform(0, max(1.0, duration_ms - 2 * step_ms), journeys))
    pauses = np.maximum(1, random.uniform(0.5, 1.5, (journeys, LONGEST)) * step_ms)
    pauses[:, 0] = 0
    times = start_ms + (begin[:, None] + np.cumsum(pauses, axis=1)).astype(np.int64) + np.arange(LONGEST)
    places = _places(random, journeys)
    steps = np.array([script.steps + (-1,) * (LONGEST - len(script.steps)) for script in SCRIPTS.values()])[kind]
    kept = _kept(times, steps, events)
    tags = Text(np.arange(journeys, dtype=np.int32), [f"{prefix}{seed:03d}{number:08d}".encode() for number in range(journeys)])
    truth = _truth(kind, steps, kept, tags)
    return stream_of("retail", _tables(random, times, steps, places, tags), truth, events, batch_rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where an item's readers are; int64 (journeys,) each."""

    store: NDArray[np.int64]
    shelf: NDArray[np.int64]
    other_shelf: NDArray[np.int64]
    counter: NDArray[np.int64]
    exit: NDArray[np.int64]
    door: NDArray[np.int64]


def _places(random: np.random.Generator, journeys: int) -> _Places:
    shelf = random.integers(1, 200, journeys)
    return _Places(
        store=random.integers(1, 50, journeys),
        shelf=shelf,
        other_shelf=(shelf + random.integers(1, 198, journeys) - 1) % 199 + 1,
        counter=random.integers(1, 12, journeys),
        exit=random.integers(1, 4, journeys),
        door=random.integers(1, 3, journeys),
    )


def _kept(times: NDArray[np.int64], steps: NDArray[np.int64], events: int) -> NDArray[np.bool_]:
    """Which readings (journeys, steps) are among the first ``events`` of the stream; ties are cut as `stream_of` cuts them."""
    flat = [np.flatnonzero((steps == place).ravel()) for place in (SHELF, OTHER_SHELF)]
    order = np.concatenate(
        [np.sort(np.concatenate(flat)), *(np.flatnonzero((steps == place).ravel()) for place in (COUNTER, EXIT, BACKROOM))]
    )
    first = order[np.argsort(times.ravel()[order], kind="stable")[:events]]
    kept = np.zeros(steps.size, dtype=bool)
    kept[first] = True
    return kept.reshape(steps.shape)


def _truth(kind: NDArray[np.int64], steps: NDArray[np.int64], kept: NDArray[np.bool_], tags: Text) -> dict[str, Truth]:
    def named(*names: str) -> NDArray[np.bool_]:
        return np.isin(kind, [NAMES.index(name) for name in names])

    def seen(place: int) -> NDArray[np.bool_]:
        return ((steps == place) & kept).any(axis=1)

    stolen = np.isin(kind, [number for number, name in enumerate(NAMES) if SCRIPTS[name].stolen]) & seen(EXIT)
    carried_off = named("misplaced", "carried off and returned") & seen(OTHER_SHELF)
    returned = carried_off & (((steps == SHELF) & kept).sum(axis=1) == 2)
    counterfeit = named("counterfeit") & seen(COUNTER)
    answers = {"shoplifting": stolen, "misplaced-item": carried_off & ~returned, "counterfeit-path": counterfeit}
    return {
        query: Truth(("tag_id",), frozenset((tags.entries[number].decode(),) for number in np.flatnonzero(answer).tolist()))
        for query, answer in answers.items()
    }


def _tables(random: np.random.Generator, times: NDArray[np.int64], steps: NDArray[np.int64], places: _Places, tags: Text) -> list[Table]:
    product = random.integers(0, len(PRODUCTS), len(times)).astype(np.int32)

    def table(event_type: str, steps_of_type: tuple[int, ...], reader_id: str, of_journey: NDArray[np.int64]) -> Table:
        journey, step = np.nonzero(np.isin(steps, steps_of_type))
        where = np.where(steps[journey, step] == OTHER_SHELF, places.other_shelf[journey], of_journey[journey])
        columns: dict[str, Cells] = {"tag_id": Text(tags.codes[journey], tags.entries), "store_id": places.store[journey], reader_id: where}
        if reader_id == "shelf_id":
            columns["home_shelf_id"] = places.shelf[journey]
        columns["reader"] = Nothing(Kind.STRING)
        columns["product"] = Text(product[journey], PRODUCTS)
        columns["rssi"] = -random.integers(280, 770, len(journey)) / 10
        return Table(event_type, times[journey, step], columns)

    return [
        table("ShelfReading", (SHELF, OTHER_SHELF), "shelf_id", places.shelf),
        table("CounterReading", (COUNTER,), "counter_id", places.counter),
        table("ExitReading", (EXIT,), "exit_id", places.exit),
        table("BackroomReading", (BACKROOM,), "door_id", places.door),
    ]
