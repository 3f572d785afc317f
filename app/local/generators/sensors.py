"""Climate motes in rooms: humidity wanders below a threshold, with planted spells above it, some of them too short to matter."""

from __future__ import annotations

import numpy as np

from app.events.types import Kind
from app.local.generators.stream import Cells, GeneratedStream, Nothing, Table, Text, Truth, stream_of

HUMID = 60.0
"""The threshold of humid-room, percent."""
WITHIN_MS = 600_000
"""How long humid-room wants a mote to stay above it, counted from the last dry reading."""
MOTES_PER_ROOM = 4
PERIOD_MS = 30_000
"""A mote reports about this often."""


def sensors(events: int, seed: int, start_ms: int, rate_per_s: float, batch_rows: int) -> GeneratedStream:
    """Readings of motes, with the truth about humid-room.

    Args:
        events: how many.
        seed: equal seeds, equal streams.
        start_ms: time of the first reading, milliseconds since the epoch.
        rate_per_s: readings per second of event time; decides how many motes there are (a short stream has fewer, so that something happens).
        batch_rows: most rows per batch.
    """
    random = np.random.default_rng([seed, 3])
    motes = max(1, min(round(rate_per_s * PERIOD_MS / 1000), events // 20))
    rounds = -(-events // motes)
    period_ms = motes * 1000 / rate_per_s
    phase = random.uniform(0, 0.5, motes)
    jitter = random.uniform(0, 0.4, (rounds, motes))
    time = start_ms + ((np.arange(rounds)[:, None] + phase + jitter) * period_ms).astype(np.int64)
    humid = _spells(random, rounds, motes, period_ms)
    humidity = np.where(humid, HUMID + 0.5 + random.uniform(0, 15, humid.shape), 45 + random.uniform(-8, 14, humid.shape))
    mote = np.broadcast_to(np.arange(motes, dtype=np.int32), time.shape)
    entries = [f"mote-{number:05d}".encode() for number in range(motes)]
    rooms = [f"room-{number:04d}".encode() for number in range(motes // MOTES_PER_ROOM + 1)]
    columns: dict[str, Cells] = {
        "mote_id": Text(mote.ravel(), entries),
        "room": Text((mote // MOTES_PER_ROOM).astype(np.int32).ravel(), rooms),
        "temperature": (21 + random.uniform(-1, 1, time.shape)).ravel(),
        "humidity": humidity.ravel(),
        "light": random.uniform(150, 250, time.size),
        "light_2": Nothing(Kind.FLOAT),
        "occupants": random.integers(0, 3, time.size),
        "activity": Nothing(Kind.INTEGER),
        "door": (random.uniform(size=time.size) < 0.1).astype(np.int64),
        "window": Nothing(Kind.INTEGER),
    }
    kept = np.zeros(time.size, bool)
    kept[np.argsort(time.ravel(), kind="stable")[:events]] = True
    found = _found(time, humid, kept.reshape(time.shape))
    truth = {"humid-room": Truth(("mote_id", "since"), frozenset((entries[column].decode(), since) for column, since in found))}
    return stream_of("climate", [Table("RoomClimate", time.ravel(), columns)], truth, events, batch_rows)


def _spells(random: np.random.Generator, rounds: int, motes: int, period_ms: float) -> np.ndarray:
    """Which readings (rounds, motes) are humid: about one spell per mote and two hours, a third of them short."""
    humid = np.zeros((rounds, motes), bool)
    long, short = max(2, int(1.5 * WITHIN_MS / period_ms) + 2), max(1, int(0.4 * WITHIN_MS / period_ms))
    chance = min(0.2, period_ms / 7_200_000)
    begins, columns = np.nonzero(random.uniform(size=(rounds, motes)) < chance)
    for begin, column in zip(begins.tolist(), columns.tolist(), strict=True):
        length = short if random.uniform() < 0.33 else long
        humid[begin : begin + length, column] = True
    return humid


def _found(time: np.ndarray, humid: np.ndarray, kept: np.ndarray) -> set[tuple[int, int]]:
    """(mote, time of the first humid reading) of every spell that no dry reading ends within the window after the last dry one before it."""
    found = set()
    humid = humid & kept
    for row, column in zip(*np.nonzero(humid[1:] & ~humid[:-1] & kept[:-1]), strict=True):
        limit = time[row, column] + WITHIN_MS
        later = time[row + 1 :, column] < limit
        dry = ~humid[row + 1 :, column] & kept[row + 1 :, column]
        if time[row + 1, column] < limit and not (later & dry).any():
            found.add((int(column), int(time[row + 1, column])))
    return found
