"""Topics keep their numbers whatever comes and goes, and with them state and identities."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.bucket.bucket import Bucket
from app.bucket.hold import Progress
from app.bucket.ingress import IngressPlan
from app.bucket.recording import rows_between
from app.config.settings import Settings, load_settings
from app.errors import ConfigurationError, SnapshotError
from app.events.batch import EventBatch
from app.events.registry import Registry, RegistrySettings
from app.events.topics import topic_numbers
from app.local.generators import generate
from app.owners.deployment import Deployment
from app.pipeline.driver import numbered_streams
from app.pipeline.numbers import FILE, FORMAT, KIND, NumberedTopic, Numbers, buckets_kept, load_numbers, store_numbers
from app.pipeline.preparation import compile_queries, prepare, read_streams
from app.storage.frames import write_frame
from app.storage.open import open_store
from tests.naive.composites import composite_events

ROOT = Path(__file__).parents[2]
SCHEMAS = [str(ROOT / "schemas" / f"{name}.avsc") for name in ("ShelfReading", "ExitReading", "CounterReading", "BackroomReading")]
QUERY = """\
name: taken-out
from: retail
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
within: 20 s
return: {tag_id: s.tag_id}
"""


def test_new_topics_get_the_next_numbers_and_those_that_are_gone_keep_theirs() -> None:
    first = Numbers().reading(["retail", "cep.heartbeat"])
    assert first.labels == ("cep.heartbeat", "retail")
    then = first.reading(["archive", "retail", "zoo"])
    assert then.labels == ("cep.heartbeat", "retail", "archive", "zoo")
    assert then.reading(["cep.heartbeat"]) == then


def test_a_topic_with_another_id_is_another_topic() -> None:
    first = Numbers().reading(["retail", "stocks"], {"retail": "A", "stocks": "S"})
    again = first.reading(["retail", "stocks"], {"retail": "B", "stocks": "S"})
    assert again.labels == ("retail", "stocks", "retail#2")
    assert again.reading(["retail"], {"retail": "C"}).labels[-1] == "retail#3"
    assert topic_numbers(again.labels) == {"retail": 2, "stocks": 1}


def test_an_id_that_becomes_known_or_is_not_known_any_more_changes_nothing() -> None:
    unknown = Numbers().reading(["retail"])
    known = unknown.reading(["retail"], {"retail": "A"})
    assert known.topics == (NumberedTopic("retail", "A"),)
    assert known.reading(["retail"]) == known


def test_the_registry_is_kept_in_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    assert load_numbers(checkpoint) == Numbers()
    numbers = Numbers().in_buckets(3).reading(["retail"], {"retail": "A"}).reading(["retail"], {"retail": "B"})
    store_numbers(checkpoint, numbers)
    assert load_numbers(checkpoint) == numbers


@pytest.mark.parametrize(
    ("number", "text", "message"),
    [(FORMAT, b"{", "says nothing"), (FORMAT, b'{"topics": 1}', "says nothing"), (FORMAT + 1, b"{}", f"format {FORMAT + 1}")],
)
def test_a_registry_that_says_nothing_is_refused(tmp_path: Path, number: int, text: bytes, message: str) -> None:
    write_frame(open_store(str(tmp_path)), FILE, KIND, number, [text])
    with pytest.raises(SnapshotError, match=message):
        load_numbers(str(tmp_path))


def test_a_damaged_registry_is_refused(tmp_path: Path) -> None:
    store_numbers(str(tmp_path), Numbers().reading(["retail"]))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SnapshotError, match="torn"):
        load_numbers(str(tmp_path))


def test_a_registry_that_is_missing_where_there_is_state_is_refused(tmp_path: Path) -> None:
    write_frame(open_store(str(tmp_path)), "deployments/0.bin", "deployment", 1, [b""])
    with pytest.raises(SnapshotError, match=f"has no {FILE}"):
        load_numbers(str(tmp_path))


def test_another_number_of_buckets_is_refused_with_the_command_to_use() -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)spark.buckets is 3, .* in 2 buckets.*cep checkpoint rescale --buckets 3"):
        Numbers().in_buckets(2).in_buckets(3)
    assert Numbers().in_buckets(2).in_buckets(2).buckets == 2


def deployed(folder: Path, numbers: Numbers, topics: list[str], *, heartbeat: bool) -> tuple[Deployment, Numbers]:
    """The application with ``retail`` fed by these topics."""
    (folder / "q.yaml").write_text(QUERY)
    retail = {"topics": topics, "schemas": SCHEMAS, "time": "time"}
    plain = {"streams": {"retail": retail}, "queries": {"paths": ["q.yaml"]}, "heartbeat": {"enabled": heartbeat}}
    (folder / "s.yaml").write_text(yaml.safe_dump(plain))
    settings, registry = load_settings(folder / "s.yaml", {}), Registry(RegistrySettings("mock://numbers"))
    numbers = numbers.reading(settings.source_topics)
    streams = numbered_streams(settings, read_streams(settings, registry), numbers)
    assert streams == read_streams(settings, registry, numbers.labels)
    return prepare(settings, compile_queries(settings, streams), streams, registry, topics=numbers.labels), numbers


def events_of(deployment: Deployment) -> EventBatch:
    """Events of the topic ``retail``."""
    events = next(iter(generate("retail", 3000, seed=5, start_ms=1_780_000_000_000, rate_per_s=50.0).batches))
    source = events.source + (topic_numbers(deployment.topics)["retail"] << 20)
    return EventBatch(events.time, source, events.offset, events.type, events.columns)


def identities(deployments: list[Deployment]) -> list[tuple[str, set[str]]]:
    """Composite events and the topics of their constituents, of an application that goes from one deployment to the next."""
    bucket, found, size = None, [], 3000 // len(deployments)
    for number, deployment in enumerate(deployments):
        (stream,) = deployment.streams
        rules, events = [stream.rules], rows_between(events_of(deployment), number * size, (number + 1) * size)
        known = (deployment.catalog, rules, 0)
        bucket = Bucket(*known, deployment.topics) if bucket is None else Bucket.restore(*known, bucket.snapshot(), deployment.topics)
        last = number == len(deployments) - 1
        chunks = [chunk for _, chunk in IngressPlan(deployment.catalog, stream.rules, 1).pack(events, Progress())]
        for one in bucket.advance(chunks, Progress(closing=last)).found:
            composites = composite_events(deployment.catalog.plans[one.query], one.matches, deployment.topics)
            found += [(event.id, {own.topic for own in event.events}) for event in composites]
    return sorted(found)


def test_topics_come_and_go_and_the_heartbeat_is_switched_but_state_and_identities_stay(tmp_path: Path) -> None:
    first, numbers = deployed(tmp_path, Numbers(), ["retail", "zoo"], heartbeat=False)
    added, numbers = deployed(tmp_path, numbers, ["archive", "retail", "zoo"], heartbeat=True)
    removed, numbers = deployed(tmp_path, numbers, ["retail"], heartbeat=False)
    undisturbed = identities([first] * 3)
    assert len(undisturbed) > 100
    assert identities([first, added, removed]) == undisturbed
    assert {topic for _, topics in undisturbed for topic in topics} == {"retail"}
    assert removed.topics == ("retail", "zoo", "archive", "cep.heartbeat")
    assert removed.stream_of_topic == (0, None, None, None)


@pytest.mark.parametrize(
    ("stored", "keep", "buckets"),
    [(None, True, 8), (4, True, 4), (8, True, 8), (4, False, 8)],
    ids=["a new checkpoint", "one of other executors", "one of the same", "who says the number means it"],
)
def test_a_derived_number_of_buckets_gives_way_to_the_checkpoints(tmp_path: Path, stored: int | None, *, keep: bool, buckets: int) -> None:
    settings = Settings.model_validate({"spark": {"buckets": 8, "keep_buckets": keep}, "checkpoint": {"path": str(tmp_path)}})
    if stored is not None:
        store_numbers(settings.checkpoint.uri, Numbers((NumberedTopic("a"),), stored))
    assert buckets_kept(settings).spark.buckets == buckets
