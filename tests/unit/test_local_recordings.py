"""Recordings become events as their README says (made-up rows; the recordings themselves are not part of the project)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from app.errors import DependencyError
from app.events.batch import EventBatch, concatenate
from app.local.recordings import RECORDINGS, read_recording
from tests.property.event_arrays import naive_events

ROWS = {
    "GF-2015": "ts,symbol,open,high,low,close,volume\n60,AA,1,3,0.5,2,100\n60,BB,5,5,5,5,7\n120,AA,2,2,2,2,0\n",
    "DETEGO": "milliseconds,epc,rssi,session,experiment_nr,panel\n20,7,-63,S0,1,\n10,8,-67,S1,2,27.0\n",
    "ROOM-CLIMATE": (
        "abs_ts_ms,location,node_id,measurement,temp_c,rel_hum,light1,light2,occupants,activity,door,window\n"
        "5,A,1,1,20.48,42.3,185.7,492.2,0,4,1,0\n6,B,1,1,21,60,1,2,2,0,0,0\n"
    ),
    "KCM-2026": (
        "snapshot_ts,stop_id,route_id,route_short_name,trip_id,vehicle_id,scheduled_arrival_ts,predicted_arrival_ts,status,delay_s\n"
        "100,1_103,1_10,G Line,1_7,1_64,90,120,default,389\n"
    ),
}


def recorded(name: str, folder: Path, events: int | None = None, seed: int = 0) -> EventBatch:
    path = folder / RECORDINGS[name].file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(ROWS[name].encode()))
    return concatenate(read_recording(name, folder, events, seed).batches)


def test_quotes_are_spread_over_their_minute_by_the_seed(tmp_path: Path) -> None:
    events = naive_events(recorded("GF-2015", tmp_path))
    assert sorted(event["attributes"]["symbol"] for event in events[:2]) == ["AA", "BB"]
    assert [event["time"] // 60_000 for event in events] == [1, 1, 2]
    assert {event["time"] % 60_000 for event in events} != {0}
    first = next(event for event in events if event["attributes"]["symbol"] == "AA")
    assert first["attributes"] == {"symbol": "AA", "price": 2.0, "volume": 100, "open": 1.0, "high": 3.0, "low": 0.5}
    again, other = (recorded("GF-2015", tmp_path, seed=seed).time.tolist() for seed in (0, 1))
    assert again == [event["time"] for event in events] != other


def test_a_read_without_panel_has_no_shelf(tmp_path: Path) -> None:
    events = naive_events(recorded("DETEGO", tmp_path))
    nothing = {"home_shelf_id": None, "product": None}
    assert [(event["type"], event["time"], event["offset"]) for event in events] == [("ShelfReading", 10, 0), ("ShelfReading", 20, 1)]
    assert events[0]["attributes"] == {"tag_id": "8", "store_id": 2, "shelf_id": 27, "reader": "S1", "rssi": -67.0, **nothing}
    assert events[1]["attributes"]["shelf_id"] is None


def test_motes_are_numbered_per_room(tmp_path: Path) -> None:
    events = naive_events(recorded("ROOM-CLIMATE", tmp_path))
    assert [event["attributes"]["mote_id"] for event in events] == ["A-1", "B-1"]
    assert events[0]["attributes"] | {"mote_id": 0} == {
        "mote_id": 0, "room": "A", "temperature": 20.48, "humidity": 42.3, "light": 185.7, "light_2": 492.2,
        "occupants": 0, "activity": 4, "door": 1, "window": 0,
    }  # fmt: skip


def test_arrivals_happen_when_they_were_polled(tmp_path: Path) -> None:
    (event,) = naive_events(recorded("KCM-2026", tmp_path))
    assert (event["time"], event["attributes"]["scheduled_arrival"], event["attributes"]["predicted_arrival"]) == (100_000, 90_000, 120_000)
    assert (event["attributes"]["vehicle_id"], event["attributes"]["delay_s"], event["attributes"]["direction_id"]) == ("1_64", 389.0, None)


def test_only_the_first_events(tmp_path: Path) -> None:
    assert len(recorded("GF-2015", tmp_path, events=2)) == 2


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="GF-2015"):
        read_recording("GF-2015", tmp_path)
