"""Quotes of many symbols: quiet prices with planted runs, and a leader whose falls a follower follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.local.generators.stream import Cells, GeneratedStream, Table, Text, Truth, stream_of

KNOWN = (
    "AAPL",
    "MSFT",
    "IBM",
    "AMZN",
    "GOOG",
    "INTC",
    "CSCO",
    "ORCL",
    "QCOM",
    "NVDA",
    "AMD",
    "TXN",
    "ADBE",
    "CRM",
    "JPM",
    "BAC",
    "WFC",
    "GS",
    "C",
    "MS",
    "XOM",
    "CVX",
    "KO",
    "PEP",
    "WMT",
    "HD",
    "MCD",
    "NKE",
    "DIS",
    "T",
    "VZ",
)
SYMBOLS = 200
LEADER, FOLLOWER = KNOWN.index("AAPL"), KNOWN.index("MSFT")
RISE, FALL = 1.008, 0.99
"""Planted changes from one quote to the next; the shipped queries ask for 0.5 %."""
NOISE = 0.0004
"""Everything else moves less than this, so that nothing unplanted looks like a run."""
WITHIN_MS = 600_000
"""The window of price-run and cross-symbol-move."""


@dataclass(frozen=True, slots=True, eq=False)
class _Planted:
    """Which quotes (events,) are changes against their symbol's quote before."""

    rises: NDArray[np.bool_]
    falls: NDArray[np.bool_]


def stocks(events: int, seed: int, start_ms: int, rate_per_s: float, batch_rows: int) -> GeneratedStream:
    """Quotes in order of time, with the truth about price-run and cross-symbol-move.

    Args:
        events: how many.
        seed: equal seeds, equal streams.
        start_ms: time of the first quote, milliseconds since the epoch.
        rate_per_s: quotes per second of event time; evenly spread with a little noise.
        batch_rows: most rows per batch.
    """
    random = np.random.default_rng([seed, 2])
    names = [*KNOWN, *(f"X{number:03d}" for number in range(len(KNOWN), SYMBOLS))]
    popularity = 1 / np.sqrt(np.arange(1, SYMBOLS + 1))
    symbol = random.choice(SYMBOLS, events, p=popularity / popularity.sum()).astype(np.int32)
    time = start_ms + np.sort((np.arange(events) + random.uniform(0, 1, events)) * 1000 / rate_per_s).astype(np.int64)
    by_symbol = np.argsort(symbol, kind="stable")
    before = np.full(events, -1, dtype=np.int64)
    same = symbol[by_symbol[1:]] == symbol[by_symbol[:-1]]
    before[by_symbol[1:][same]] = by_symbol[:-1][same]
    planted = _plant(random, symbol, before)
    price = _prices(random, by_symbol, symbol, planted)
    opened = np.where(before >= 0, price[before], price)
    columns: dict[str, Cells] = {
        "symbol": Text(symbol, [name.encode() for name in names]),
        "price": price,
        "volume": (100 * random.geometric(0.05, events)).astype(np.int64),
        "open": opened,
        "high": np.maximum(opened, price),
        "low": np.minimum(opened, price),
    }
    truth = {"price-run": _price_runs(time, symbol, before, planted, names), "cross-symbol-move": _moves(time, symbol, planted)}
    return stream_of("stocks", [Table("Quote", time, columns)], truth, events, batch_rows)


def _plant(random: np.random.Generator, symbol: NDArray[np.int32], before: NDArray[np.int64]) -> _Planted:
    events = len(symbol)
    rises, falls = np.zeros(events, bool), np.zeros(events, bool)
    falls[np.isin(symbol, (LEADER, FOLLOWER)) & (random.uniform(size=events) < 0.02)] = True
    ends = np.flatnonzero((random.uniform(size=events) < 0.001) & (before >= 0) & ~np.isin(symbol, (LEADER, FOLLOWER)))
    rises[ends] = True
    rises[before[ends]] = True
    falls &= before >= 0
    rises &= before >= 0
    return _Planted(rises, falls)


def _prices(random: np.random.Generator, by_symbol: NDArray[np.intp], symbol: NDArray[np.int32], planted: _Planted) -> NDArray[np.float64]:
    """A level per symbol that planted changes move and that goes back to its start in small steps, times a little noise."""
    price = np.empty(len(symbol))
    start = random.uniform(20, 400, SYMBOLS)
    noise = random.uniform(-NOISE / 4, NOISE / 4, len(symbol))
    bounds = np.searchsorted(symbol[by_symbol], np.arange(SYMBOLS + 1))
    for number in range(SYMBOLS):
        rows = by_symbol[bounds[number] : bounds[number + 1]]
        level = _wearing_off(planted.rises[rows] * np.log(RISE)) - _wearing_off(planted.falls[rows] * -np.log(FALL))
        price[rows] = np.round(start[number] * np.exp(level + noise[rows]), 4)
    return price


def _wearing_off(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of all changes so far, less `NOISE` per quote as long as it is above zero (Lindley's recursion)."""
    total = np.cumsum(changes - NOISE)
    return total - np.minimum(0, np.minimum.accumulate(total)) if len(total) else total


def _price_runs(
    time: NDArray[np.int64], symbol: NDArray[np.int32], before: NDArray[np.int64], planted: _Planted, names: list[str]
) -> Truth:
    third = np.flatnonzero(planted.rises & (before >= 0))
    second = before[third]
    third, second = third[planted.rises[second]], second[planted.rises[second]]
    first = before[second]
    inside = (first >= 0) & (time[third] - time[first] < WITHIN_MS)
    ends = third[inside].tolist()
    return Truth(("symbol", "ended"), frozenset((names[symbol[row]], int(time[row])) for row in ends))


def _moves(time: NDArray[np.int64], symbol: NDArray[np.int32], planted: _Planted) -> Truth:
    led = np.flatnonzero(planted.falls & (symbol == LEADER))
    followed = np.flatnonzero(planted.falls & (symbol == FOLLOWER))
    found: set[tuple[object, ...]] = set()
    for row in followed.tolist():
        candidates = led[: np.searchsorted(led, row)]
        inside = candidates[time[row] - time[candidates] < WITHIN_MS]
        found.update((int(time[leader]), int(time[row])) for leader in inside.tolist())
    return Truth(("led_at", "followed_at"), frozenset(found))
