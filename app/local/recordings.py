"""Public recordings as streams of our schemas: which column of which file becomes which attribute.

The files are not part of the project (their licences forbid it); they lie beside a developer's checkout, see `default_folder`.
Figures computed from them name the data set as `Recording.name` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from app.errors import DependencyError
from app.events.types import Kind
from app.local.generators import BATCH_ROWS
from app.local.generators.stream import GeneratedStream, Nothing, Table, Text, stream_of

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording and how its rows become events.

    Attributes:
        name: by which it is cited.
        file: in the folder of recordings.
        stream: the stream of the shipped queries that it feeds.
        table: CSV columns and a seed → the events, in any order.
    """

    name: str
    file: str
    stream: str
    table: Callable[[Columns, int], Table]


class Columns:
    """The columns of a CSV file, taken one at a time as arrays. Nulls become 0 or the empty text; `nulls` says where they were."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def integers(self, name: str) -> NDArray[np.int64]:
        """An integer column."""
        return np.asarray(self._column(name).cast(pa.int64()))

    def floats(self, name: str) -> NDArray[np.float64]:
        """A column of decimals."""
        return np.asarray(self._column(name).cast(pa.float64()))

    def text(self, *names: str) -> Text:
        """A string column; several are joined by a dash."""
        columns = [self._column(name).cast(pa.string()) for name in names]
        encoded = pc.binary_join_element_wise(*columns, "-").dictionary_encode()
        return Text(np.asarray(encoded.indices).astype(np.int32), [value.encode() for value in encoded.dictionary.to_pylist()])

    def nulls(self, name: str) -> NDArray[np.bool_]:
        """Where a column is null."""
        return np.asarray(self._table[name].combine_chunks().is_null())

    def _column(self, name: str) -> pa.Array:
        column = self._table[name].combine_chunks()
        return column if not column.null_count else column.fill_null("" if pa.types.is_string(column.type) else 0)


def _gf_2015(columns: Columns, seed: int) -> Table:
    """All symbols of a minute share its beginning, in alphabetical order: spread over the minute, shuffled."""
    spread = np.random.default_rng([seed, 2015]).integers(0, MINUTE_MS, len(columns))
    return Table(
        "Quote",
        columns.integers("ts") * 1000 + spread,
        {
            "symbol": columns.text("symbol"),
            "price": columns.floats("close"),
            "volume": columns.integers("volume"),
            "open": columns.floats("open"),
            "high": columns.floats("high"),
            "low": columns.floats("low"),
        },
    )


def _detego(columns: Columns, seed: int) -> Table:
    """Each of the nine experiments counts as one store, the panel as the shelf; reads without a panel do not say where."""
    return Table(
        "ShelfReading",
        columns.integers("milliseconds"),
        {
            "tag_id": columns.text("epc"),
            "store_id": columns.integers("experiment_nr"),
            "shelf_id": columns.integers("panel"),
            "home_shelf_id": Nothing(Kind.INTEGER),
            "product": Nothing(Kind.STRING),
            "reader": columns.text("session"),
            "rssi": columns.floats("rssi"),
        },
        {"shelf_id": columns.nulls("panel")},
    )


def _room_climate(columns: Columns, seed: int) -> Table:
    """Nodes are numbered anew in every room, motes are not."""
    return Table(
        "RoomClimate",
        columns.integers("abs_ts_ms"),
        {
            "mote_id": columns.text("location", "node_id"),
            "room": columns.text("location"),
            "temperature": columns.floats("temp_c"),
            "humidity": columns.floats("rel_hum"),
            "light": columns.floats("light1"),
            "light_2": columns.floats("light2"),
            **{name: columns.integers(name) for name in ("occupants", "activity", "door", "window")},
        },
    )


def _kcm_2026(columns: Columns, seed: int) -> Table:
    """An arrival happens when it was polled, whatever time was predicted for it: that is when anybody could know."""
    return Table(
        "StopArrival",
        columns.integers("snapshot_ts") * 1000,
        {
            **{name: columns.text(name) for name in ("vehicle_id", "route_id", "stop_id", "trip_id", "status")},
            "delay_s": columns.floats("delay_s"),
            "direction_id": Nothing(Kind.INTEGER),
            "scheduled_arrival": columns.integers("scheduled_arrival_ts") * 1000,
            "predicted_arrival": columns.integers("predicted_arrival_ts") * 1000,
        },
    )


RECORDINGS: Mapping[str, Recording] = {
    recording.name: recording
    for recording in (
        Recording("GF-2015", "stocks/us_1min_2015-10-12_to_16.csv.gz", "stocks", _gf_2015),
        Recording("DETEGO", "rfid/detego_case_study_reads.csv.gz", "retail", _detego),
        Recording("ROOM-CLIMATE", "sensors/room_climate.csv.gz", "climate", _room_climate),
        Recording("KCM-2026", "bus/seattle_kcm_stop_arrivals.csv.gz", "transit", _kcm_2026),
    )
}


def default_folder() -> Path:
    """Where recordings are looked for: ``../shared/data`` beside the checkout."""
    return Path(__file__).resolve().parents[3] / "shared" / "data"


def read_recording(
    name: str, folder: Path | None = None, events: int | None = None, seed: int = 0, batch_rows: int = BATCH_ROWS
) -> GeneratedStream:
    """A recording as events in order of time.

    Args:
        name: one of `RECORDINGS`.
        folder: where the files are; `default_folder` when not given.
        events: only the first so many.
        seed: of what has to be drawn by lot (GF-2015: the moment within the minute).
        batch_rows: most rows per batch.

    Raises:
        DependencyError: the file is not there.
    """
    recording = RECORDINGS[name]
    path = (folder or default_folder()) / recording.file
    if not path.is_file():
        raise DependencyError(f"the recording {name} is not there: no file {path}")
    table = recording.table(Columns(csv.read_csv(path)), seed)
    return stream_of(recording.stream, [table], {}, len(table.time) if events is None else events, batch_rows)
