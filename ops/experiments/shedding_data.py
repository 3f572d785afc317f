"""Streams for the shedding experiments: the papers' generators, and stand-ins for recordings that were never published.

Recordings are read from the folder ``data`` beside the project's ``shared`` folder and named as its README does; rows of them are never written anywhere.
Everything that is drawn comes from the seed, so a stream is a function of its arguments.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from app.events.batch import Column, Dictionary, EventBatch, take
from app.events.types import Attribute, EventType, Kind, StreamSchema

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "data"
GF_2015 = "stocks/us_1min_2015-10-12_to_16.csv.gz"
POR_SUI_2019 = "soccer/positions_first_half_25hz.csv.gz"
BUSES = {
    "KCM-2026": "bus/seattle_kcm_stop_arrivals.csv.gz",
    "MTA-2017": "bus/nyc_mta_stop_calls.csv.gz",
    "DUB-2013": "bus/dublin_siri_20130131_sample.csv.gz",
}

MEAN_GAPS = {
    "DS1": (2.5, 15, 40),
    "DS2": (2.8, 15, 15),
    "DS3": (4, 6, 12),
    "DS4": (6, 6, 6),
    "DS5": (2.5, 15, 40) * 2,
    "DS6": (2.8, 15, 15) * 2,
    "DS7": (4, 6, 12) * 2,
    "DS8": (6, 6, 6) * 2,
}
"""gSPICE, table III: mean seconds between two events of types A, B, C, …"""
STEPS = 10
"""Symbols of pSPICE's Q1 and Q2."""
ADVANCE = 1.55e-3
"""Share of events that take a partial match of Q1 or Q2 a step further (calibrated)."""
LEADERS = 4 / 500
"""Share of events that open a window: quotes of 4 of 500 symbols."""


def recording(name: str) -> Path | None:
    """The file of a recording, where it is there."""
    path = RECORDINGS / name
    return path if path.exists() else None


def batch_of(names: list[str], kinds: np.ndarray, time_ms: np.ndarray, **columns: np.ndarray) -> EventBatch:
    """Events in the order given; integer columns stay integers."""
    typed = {
        name: Column(Kind.INTEGER, values.astype(np.int64)) if values.dtype.kind in "iub" else Column(Kind.FLOAT, values.astype(np.float64))
        for name, values in columns.items()
    }
    dictionary = Dictionary.of([name.encode() for name in names])
    place = np.arange(len(kinds), dtype=np.int64)
    kind = Column(Kind.STRING, kinds.astype(np.int32), None, dictionary)
    return EventBatch(time_ms.astype(np.int64), np.zeros_like(place), place, kind, typed)


def looped(batch: EventBatch, events: int) -> EventBatch:
    """A stream of so many events: the recording again and again, each time later, with places of its own."""
    place = np.arange(events, dtype=np.int64)
    part = take(batch, place % len(batch))
    turn_ms = int(batch.time[-1] - batch.time[0]) + 1
    return EventBatch(part.time + place // len(batch) * turn_ms, np.zeros_like(place), place, part.type, part.columns)


def schema_of(names: list[str], **attributes: Kind) -> StreamSchema:
    """A stream ``s`` whose types all have these attributes."""
    fields = tuple(Attribute(name, kind) for name, kind in attributes.items())
    return StreamSchema("s", tuple(EventType(name, fields) for name in names))


# --- gSPICE's synthetic streams ---------------------------------------------------------------------------------------------------------------------------------------------------

LETTERS = list("ABCDEF")
LETTERS_SCHEMA = schema_of(LETTERS, v=Kind.INTEGER)


def letters(name: str, events: int, seed: int) -> EventBatch:
    """DS1 to DS8: every type at exponential gaps of its own, ``v`` uniform on the integers 1 to 10."""
    random = np.random.default_rng([seed, int(name[2:])])
    gaps = np.array(MEAN_GAPS[name])
    rates = 1 / gaps
    kinds = random.choice(len(gaps), events, p=rates / rates.sum())  # independent exponential clocks: who rings next, and when
    time = np.cumsum(random.exponential(1000 / rates.sum(), events))
    return batch_of(LETTERS, kinds, time, v=random.integers(1, 11, events))


# --- stocks ----------------------------------------------------------------------------------------------------------------------------------------------------------------------------


def moved(prices: np.ndarray, minutes: np.ndarray, symbols: list[str], share: float, seed: int) -> EventBatch:
    """An event each time that a symbol has moved by this share since its last event; ``move`` is how many times the share, negative when it fell.

    Args:
        prices: float64 (minutes, symbols), NaN where there is no quote.
        minutes: int64 (minutes,), s.
        symbols: names; each is an event type.
        share: 0.004 is 0.4 %.
        seed: spreads the events of a minute over it, since all have its time.
    """
    random = np.random.default_rng(seed)
    last = np.full(len(symbols), np.nan)
    rows, who, moves = [], [], []
    for k in range(len(prices)):
        change = prices[k] / last - 1
        last = np.where(np.isnan(last), prices[k], last)
        own = np.flatnonzero(np.abs(change) >= share)
        last[own] = prices[k, own]
        rows.append(np.full(len(own), k))
        who.append(own)
        moves.append(np.trunc(change[own] / share * (1 + 1e-12)))
    row, kinds = np.concatenate(rows), np.concatenate(who)
    time = minutes[row] * 1000 + random.integers(0, 60_000, len(row))
    order = np.argsort(time, kind="stable")
    return batch_of(symbols, kinds[order], time[order], move=np.concatenate(moves).astype(np.int64)[order])


@lru_cache(maxsize=1)
def gf_2015() -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Closing prices of GF-2015 by minute and symbol, the minutes (s), and the symbols."""
    frame = pd.read_csv(RECORDINGS / GF_2015, usecols=["ts", "symbol", "close"])
    table = frame.pivot_table(index="ts", columns="symbol", values="close", aggfunc="last")
    return table.to_numpy(np.float64), table.index.to_numpy(np.int64), tuple(table.columns)


def stock_prices(symbols: int, minutes: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Prices that move together, calm or restless by turns; the first symbols are the most active ones (Zipf)."""
    random = np.random.default_rng(seed)
    restless = np.zeros(minutes, np.bool_)
    for k in range(1, minutes):
        restless[k] = restless[k - 1] ^ (random.random() < (1 / 20 if restless[k - 1] else 1 / 120))
    scale = 1.6e-3 * (1 + np.arange(symbols)) ** -0.25
    together = random.standard_normal((minutes, 1))
    own = random.standard_normal((minutes, symbols))
    steps = (np.sqrt(0.3) * together + np.sqrt(0.7) * own) * scale * np.where(restless, 2.5, 1.0)[:, None]
    return 100 * np.exp(np.cumsum(steps, axis=0)), 60 * np.arange(minutes), [f"S{k}" for k in range(symbols)]


# --- pSPICE's stock queries as steps ---------------------------------------------------------------------------------------------------------------------------------------

STEP_NAMES = ["Leader", *(f"S{k}" for k in range(1, STEPS + 1))]
STEP_SCHEMA = schema_of(STEP_NAMES, up=Kind.INTEGER)


def of_use(leaders: float) -> float:
    """Share of all quotes that a pattern names, when so many open a window; steps count twice, because half of them go the wrong way."""
    return leaders + 2 * STEPS * ADVANCE


OF_USE = of_use(LEADERS)


def steps(events: int, seed: int, leaders: float = LEADERS) -> EventBatch:
    """Rising and falling quotes: leaders open windows, each of ten symbols advances the partial matches that wait for it.

    Only the quotes that the patterns name, which is all that selection lets through: an event stands for ``1 / of_use(leaders)`` quotes.
    """
    random = np.random.default_rng([seed, 77])
    shares = np.array([leaders, *[2 * ADVANCE] * STEPS]) / of_use(leaders)
    kinds = random.choice(len(STEP_NAMES), events, p=shares)
    return batch_of(STEP_NAMES, kinds, np.arange(events), up=random.integers(0, 2, events))


# --- soccer ----------------------------------------------------------------------------------------------------------------------------------------------------------------------------

TEAM = 11
HOME, AWAY = [f"H{k}" for k in range(TEAM)], [f"A{k}" for k in range(TEAM)]
PLAYERS = [*HOME, *AWAY, "StrikerH", "StrikerA"]
PLAYERS_SCHEMA = schema_of(PLAYERS, distance=Kind.FLOAT, player=Kind.INTEGER)
POSSESSION_M = 1.5


def duel_events(positions: np.ndarray, ball: np.ndarray, time_ms: np.ndarray, seed: int) -> EventBatch:
    """One event per player and sample with the distance to the ball, and one for a team of which somebody but the keeper has it ("StrikerH", "StrikerA").

    The papers look at one striker per team and at the distance to him; in POR-SUI-2019 the foremost players have the ball for 18 and 45 seconds only.

    Args:
        positions: float64 (samples, 22, 2), m; home first.
        ball: float64 (samples, 2), m.
        time_ms: int64 (samples,).
        seed: in which order the players of a sample come.
    """
    random = np.random.default_rng(seed)
    samples = len(positions)
    distance = np.hypot(*np.moveaxis(positions - ball[:, None], 2, 0))
    depth = np.abs(positions[:, :, 0].mean(axis=0))
    outfield = np.ones(2 * TEAM, np.bool_)
    outfield[[depth[:TEAM].argmax(), TEAM + depth[TEAM:].argmax()]] = False
    holder = np.where(outfield, distance, np.inf).argmin(axis=1)
    has = np.flatnonzero(distance[np.arange(samples), holder] <= POSSESSION_M)
    gap = int(np.median(np.diff(time_ms)))
    phase = random.permutation(2 * TEAM) * gap // (2 * TEAM + 1)
    sample, player = np.repeat(np.arange(samples), 2 * TEAM), np.tile(np.arange(2 * TEAM), samples)
    time = np.concatenate([time_ms[sample] + phase[player], time_ms[has]])
    kinds = np.concatenate([player, 2 * TEAM + holder[has] // TEAM])
    far = np.concatenate([distance.ravel(), np.zeros(len(has))])
    who = np.concatenate([player, holder[has]])
    order = np.argsort(time, kind="stable")
    return batch_of(PLAYERS, kinds[order], time[order], distance=far[order], player=who[order])


@lru_cache(maxsize=1)
def por_sui_2019(gap_ms: int = 1000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of players and ball in POR-SUI-2019 every so often (a multiple of 40 ms), and the times (ms)."""
    frame = pd.read_csv(RECORDINGS / POR_SUI_2019, usecols=["ts_ms", "id", "team", "x", "y"])
    frame = frame[frame["ts_ms"] % gap_ms == 0].assign(who=lambda f: f["team"] + f["id"].astype(str).str.zfill(3))
    wide = frame.pivot_table(index="ts_ms", columns="who", values=["x", "y"]).dropna()
    names = sorted(set(frame["who"]))
    players = [name for team in "HA" for name in [own for own in names if own[0] == team][:TEAM]]
    (ball,) = [name for name in names if name[0] == "B"][:1]
    at = np.stack([wide["x"][players].to_numpy(), wide["y"][players].to_numpy()], axis=2)
    return at, wide[[("x", ball), ("y", ball)]].to_numpy(), wide.index.to_numpy(np.int64)


def soccer_positions(seconds: int, seed: int, hz: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A ball that wanders, and players who are drawn to it from their places; in the form of `por_sui_2019`.

    Args:
        seconds: one position of each is drawn per second.
        seed: of all chance.
        hz: samples per second; between two seconds everybody moves straight on.
    """
    second = 1000 * np.arange(seconds, dtype=np.int64)
    at, ball = _second_by_second(seconds, seed)
    time = np.arange(0, 1000 * (seconds - 1) + 1, 1000 // hz, dtype=np.int64)
    return _between(time, second, at), _between(time, second, ball), time


def _between(time: np.ndarray, known: np.ndarray, places: np.ndarray) -> np.ndarray:
    flat = places.reshape(len(known), -1)
    return np.stack([np.interp(time, known, one) for one in flat.T], axis=1).reshape(len(time), *places.shape[1:])


def _second_by_second(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, 11])
    ball = np.zeros((samples, 2))
    for k in range(1, samples):
        ball[k] = 0.97 * ball[k - 1] + random.normal(0, (6, 4))
    home = np.column_stack([np.linspace(-45, 15, TEAM), random.uniform(-30, 30, TEAM)])
    places = np.concatenate([home, -home])
    at = np.empty((samples, 2 * TEAM, 2))
    at[0] = places
    for k in range(1, samples):
        pull = places + 0.55 * (ball[k] - places)
        at[k] = at[k - 1] + 0.3 * (pull - at[k - 1]) + random.normal(0, 1.0, (2 * TEAM, 2))
    for one in (TEAM - 1, 2 * TEAM - 1):  # strikers hunt the ball
        hunting = random.random(samples) < 0.15
        at[hunting, one] = ball[hunting] + random.normal(0, 0.7, (int(hunting.sum()), 2))
    return at, ball


# --- buses -----------------------------------------------------------------------------------------------------------------------------------------------------------------------------

BUS_SCHEMA = schema_of(["Bus"], stop=Kind.INTEGER, vehicle=Kind.INTEGER, late=Kind.INTEGER)
LATE_S = 300


def buses(events: int, seed: int, vehicles: int = 911, stops: int = 300) -> EventBatch:
    """Buses on fixed lines of stops: delays that linger with a vehicle, and incidents that hold up everybody at some stops for a while."""
    random = np.random.default_rng([seed, 5])
    line = random.integers(0, stops, vehicles)
    vehicle = random.integers(0, vehicles, events)
    visit = np.zeros(vehicles, np.int64)
    delay = random.exponential(60, vehicles)
    incident = random.integers(0, stops, max(1, events // 400))
    begin = np.sort(random.integers(0, events, len(incident)))
    held = np.full(stops, -1)  # event number until which a stop is held up
    stop, late = np.empty(events, np.int64), np.empty(events, np.int64)
    upcoming = 0
    for k, one in enumerate(vehicle.tolist()):
        while upcoming < len(begin) and begin[upcoming] <= k:
            held[incident[upcoming] : incident[upcoming] + 3] = k + random.integers(500, 2500)
            upcoming += 1
        here = (line[one] + visit[one]) % stops
        visit[one] += 1
        delay[one] = 0.9 * delay[one] + random.exponential(8)
        stop[k], late[k] = here, delay[one] + (400 if held[here] > k else 0) >= LATE_S
    return batch_of(["Bus"], np.zeros(events, np.int64), 1000 * np.arange(events), stop=stop, vehicle=vehicle, late=late)


_TIMES = {"snapshot_ts": 1000, "ts": 1000, "timestamp_us": 0.001}
"""Columns of time in the bus recordings, and ms in their unit."""


def bus_recording(name: str) -> EventBatch:
    """Stop calls of KCM-2026 or MTA-2017 in the order of their times; of DUB-2013 the first position that a bus reports on its way to each stop."""
    frame = pd.read_csv(RECORDINGS / BUSES[name])
    (column,) = [one for one in _TIMES if one in frame]
    frame = frame.assign(at=frame[column] * _TIMES[column]).sort_values("at", kind="stable")
    if "at_stop" in frame:
        before = frame.groupby("vehicle_id")["stop_id"].shift()
        frame = frame[frame["stop_id"] != before]
    codes = {name: pd.factorize(frame[name])[0] for name in ("stop_id", "vehicle_id")}
    late = (frame["delay_s"] >= LATE_S).to_numpy()
    time = frame["at"].to_numpy().astype(np.int64)
    return batch_of(["Bus"], np.zeros(len(frame), np.int64), time, stop=codes["stop_id"], vehicle=codes["vehicle_id"], late=late)
