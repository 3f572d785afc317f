"""Deployment: everything that tasks must know of one version of the catalog, as a file in the checkpoint.

A directive names the deployment of its batch by fingerprint; tasks load it once per worker. Old ones stay while the state log may still
need them: a bucket's inputs are replayed with the deployment they were fed under. No secrets in here.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from functools import lru_cache

from app.bucket.hold import TimeRules
from app.events.avro import StreamDefinition
from app.pipeline.checkpoint_files import checkpoint_files
from app.pipeline.models import StoredModel
from app.query.plan import Catalog

INGESTED = "@ingested"
"""Column with the broker's timestamp (ms), carried beside the attributes for measuring latency; no query can name it."""


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """Where a query's composite events go, and under which registered schema."""

    topic: str
    schema_id: int
    schema: str
    """Avro JSON."""


@dataclass(frozen=True, slots=True)
class StreamDeployment:
    """One input stream: how its records are read, and how time passes in it."""

    definition: StreamDefinition
    readers: tuple[str, ...]
    """Readers' schemas, Avro JSON."""
    rules: TimeRules
    idle_after_ms: int
    max_ahead_ms: int
    """How far an event's time may be ahead of its record's Kafka timestamp."""
    with_headers: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """A catalog with the streams it was compiled against and its outputs."""

    catalog: Catalog
    streams: tuple[StreamDeployment, ...]
    topics: tuple[str, ...]
    """By number (`app.events.topics`): those that are read, and those that ever were."""
    stream_of_topic: tuple[int | None, ...]
    """For each of `topics` its place in `streams`; None for the heartbeat, and for those that are no longer read."""
    outputs: tuple[OutputTopic, ...]
    """By query, in the order of `Catalog.plans`."""
    timeouts: tuple[OutputTopic | None, ...]
    """By query; None for those that do not write them."""
    reports: OutputTopic
    """The audit topic's shed reports."""
    late_topic: str
    dead_letters_topic: str
    buckets: int
    models: tuple[StoredModel | None, ...] = ()
    """By query; None for those whose shedders go by no model."""

    @property
    def fingerprint(self) -> str:
        """Changes when anything in here does."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:24]


def store_deployment(checkpoint: str, deployment: Deployment) -> str:
    """Writes the deployment into the checkpoint (idempotent) and returns its fingerprint."""
    files, base = checkpoint_files(checkpoint)
    fingerprint = deployment.fingerprint
    files.create_dir(f"{base}/deployments", recursive=True)
    path = f"{base}/deployments/{fingerprint}.pickle"
    with files.open_output_stream(f"{path}.draft") as stream:
        stream.write(pickle.dumps(deployment))
    files.move(f"{path}.draft", path)
    return fingerprint


@lru_cache(maxsize=8)
def load_deployment(checkpoint: str, fingerprint: str) -> Deployment:
    """The deployment of this fingerprint; cached per worker, since every task asks."""
    files, base = checkpoint_files(checkpoint)
    with files.open_input_stream(f"{base}/deployments/{fingerprint}.pickle") as stream:
        deployment: Deployment = pickle.loads(stream.readall())  # noqa: S301 - our own file, in our own checkpoint
    return deployment
