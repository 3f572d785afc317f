"""Buses at stops: mostly punctual, with planted jams that make several vehicles late at the same stop."""

from __future__ import annotations

import numpy as np

from app.events.types import Kind
from app.local.generators.stream import Cells, GeneratedStream, Nothing, Table, Text, Truth, stream_of

LATE_S = 300
"""From how many seconds on a vehicle counts as late in delayed-vehicles."""
WITHIN_MS = 600_000
"""Three late vehicles at a stop within this time are a finding."""
HEADWAY_MS = 180_000
"""At a stop, a vehicle arrives about this often."""
VEHICLES_PER_STOP = 6


def vehicles(events: int, seed: int, start_ms: int, rate_per_s: float, batch_rows: int) -> GeneratedStream:
    """Stop arrivals, with the truth about delayed-vehicles.

    Args:
        events: how many.
        seed: equal seeds, equal streams.
        start_ms: time of the first arrival, milliseconds since the epoch.
        rate_per_s: arrivals per second of event time; decides how many stops there are (a short stream has fewer, so that something happens).
        batch_rows: most rows per batch.
    """
    random = np.random.default_rng([seed, 4])
    stops = max(1, min(round(rate_per_s * HEADWAY_MS / 1000), events // 50))
    rounds = -(-events // stops)
    headway_ms = stops * 1000 / rate_per_s
    time = start_ms + (
        (np.arange(rounds)[:, None] + random.uniform(0, 0.5, stops) + random.uniform(0, 0.4, (rounds, stops))) * headway_ms
    ).astype(np.int64)
    jam = random.uniform(size=(rounds, stops)) < 0.005
    late = jam.copy()
    for _ in range(2):
        late[1:] |= late[:-1].copy()
    late |= random.uniform(size=late.shape) < 0.01
    delay = np.where(late, LATE_S + random.integers(0, 900, late.shape), random.integers(-60, LATE_S - 60, late.shape)).astype(np.float64)
    stop = np.broadcast_to(np.arange(stops, dtype=np.int32), time.shape)
    vehicle = (stop // 3 * VEHICLES_PER_STOP + (np.arange(rounds)[:, None] + stop) % VEHICLES_PER_STOP).astype(np.int32)
    route = (stop // 3).astype(np.int32)
    names = {
        "stop_id": (stop, [f"S{number:05d}".encode() for number in range(stops)]),
        "vehicle_id": (vehicle, [f"V{number:05d}".encode() for number in range(int(vehicle.max()) + 1)]),
        "route_id": (route, [f"R{number:04d}".encode() for number in range(stops // 3 + 1)]),
    }
    columns: dict[str, Cells] = {name: Text(codes.ravel(), entries) for name, (codes, entries) in names.items()}
    columns |= {"delay_s": delay.ravel(), "trip_id": Nothing(Kind.STRING), "direction_id": (route % 2).astype(np.int64).ravel()}
    columns |= {"status": Nothing(Kind.STRING), "scheduled_arrival": Nothing(Kind.TIME), "predicted_arrival": Nothing(Kind.TIME)}
    kept = np.zeros(time.size, bool)
    kept[np.argsort(time.ravel(), kind="stable")[:events]] = True
    found = _found(time, vehicle, late & kept.reshape(time.shape))
    stop_names = names["stop_id"][1]
    truth = {"delayed-vehicles": Truth(("stop_id", "began", "ended"), frozenset((stop_names[s].decode(), a, c) for s, a, c in found))}
    return stream_of("transit", [Table("StopArrival", time.ravel(), columns)], truth, events, batch_rows)


def _found(time: np.ndarray, vehicle: np.ndarray, late: np.ndarray) -> set[tuple[int, int, int]]:
    """(stop, first time, last time) of every three late arrivals of different vehicles at one stop within the window."""
    found = set()
    for stop in np.flatnonzero(late.sum(axis=0) >= 3).tolist():
        rows = np.flatnonzero(late[:, stop])
        times, ids = time[rows, stop].tolist(), vehicle[rows, stop].tolist()
        for i in range(len(rows)):
            for j in range(i + 1, len(rows)):
                if times[j] - times[i] >= WITHIN_MS:
                    break
                for k in range(j + 1, len(rows)):
                    if times[k] - times[i] >= WITHIN_MS:
                        break
                    if len({ids[i], ids[j], ids[k]}) == 3:
                        found.add((stop, times[i], times[k]))
    return found
