"""Queries of the application may speak of elements of arrays and maps: the deployment's streams have them as attributes, as long as a query needs them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from app.config.settings import Settings
from app.events.avro import parse_schema
from app.events.decoder import BatchDecoder
from app.owners.deployment import Deployment
from app.pipeline.draining import Past
from app.pipeline.preparation import compile_queries, prepare, read_query_set, read_streams

SCHEMA = {
    "type": "record",
    "name": "Shelf",
    "fields": [
        {"name": "time", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "labels", "type": {"type": "map", "values": "long"}},
    ],
}
QUERY = (
    "name: q\nversion: 1\nfrom: shelves\nevent: SEQ(Shelf a, Shelf b)\nwhere: a.tags[0] = b.tags[0] AND b.labels['n'] > 1\nwithin: 1 m\n"
)


class KnownSubjects:
    """A registry that takes everything; the writers' schema has the number 1."""

    def schema(self, key: object) -> object:
        return parse_schema(json.dumps(SCHEMA)) if key == 1 else None

    def latest(self, _: str) -> None:
        return None

    def register(self, _: str, __: str) -> int:
        return 7


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "shelf.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "q.yaml").write_text(QUERY)
    return Settings.model_validate(
        {
            "streams": {"shelves": {"topics": ["shelves"], "schemas": [str(tmp_path / "shelf.avsc")], "time": "time"}},
            "queries": {"paths": [str(tmp_path / "q.yaml")]},
            "checkpoint": {"path": str(tmp_path / "checkpoint")},
        }
    )


def prepared(settings: Settings, past: Past | None = None) -> Deployment:
    registry = KnownSubjects()
    streams = read_streams(settings, registry)  # type: ignore[arg-type]
    return prepare(settings, compile_queries(settings, streams), streams, registry, past)  # type: ignore[arg-type]


def decoded(deployment: Deployment, *values: dict[str, object]):
    (stream,) = deployment.streams
    decoder = BatchDecoder(stream.definition, [parse_schema(text) for text in stream.readers], KnownSubjects())  # type: ignore[arg-type]
    records = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), value)
        records.append(b"\0\0\0\0\1" + out.getvalue())
    places = np.arange(len(records), dtype=np.int64)
    return decoder.decode(pa.array(records, pa.binary()), np.zeros_like(places), places, None, places).batch


def test_events_have_the_elements_that_queries_speak_of(settings: Settings) -> None:
    deployment = prepared(settings)
    batch = decoded(deployment, {"time": 1, "tags": ["x", "y"], "labels": {"n": 3}}, {"time": 2, "tags": [], "labels": {}})
    tags, numbers = batch.columns["tags[0]"], batch.columns["labels['n']"]
    assert tags.dictionary is not None
    assert tags.dictionary.entry(int(tags.values[0])) == b"x"
    assert int(numbers.values[0]) == 3
    assert (tags.state is not None and tags.state.tolist(), numbers.state is not None and numbers.state.tolist()) == ([0, 1], [0, 1])
    assert "tags[1]" not in batch.columns


def test_other_elements_are_known_when_a_query_is_changed_and_go_when_nobody_asks(settings: Settings) -> None:
    before = prepared(settings)
    file = settings.queries.paths[0]
    file.write_text(QUERY.replace("tags[0]", "tags[1]").replace("version: 1", "version: 2"))
    assert not read_query_set(settings, before.streams).errors, "those that the running streams have do not matter"
    assert before.streams[0].definition.elements == ("labels['n']", "tags[0]")
    assert prepared(settings).streams[0].definition.elements == ("labels['n']", "tags[1]")
    file.write_text("name: q\nfrom: shelves\nevent: Shelf a\n")
    assert prepared(settings).streams[0].definition.elements == ()


def test_an_old_version_that_goes_on_keeps_its_elements(settings: Settings) -> None:
    file = settings.queries.paths[0]
    file.write_text(QUERY + "on_change: drain\n")
    before = prepared(settings)
    file.write_text(QUERY.replace("tags[0]", "tags[1]").replace("version: 1", "version: 2") + "on_change: drain\n")
    after = prepared(settings, Past(before, {0: 1_000}))
    assert len(after.catalog.plans) == 2
    assert after.streams[0].definition.elements == ("labels['n']", "tags[0]", "tags[1]")


def test_a_stream_without_elements_is_what_it_was(settings: Settings) -> None:
    settings.queries.paths[0].write_text("name: q\nfrom: shelves\nevent: Shelf a\n")
    assert prepared(settings).streams == read_streams(settings, KnownSubjects())  # type: ignore[arg-type]
