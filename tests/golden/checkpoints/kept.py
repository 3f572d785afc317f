"""A folder in which an application has stopped, and how it goes on there.

It can be unpacked anywhere: neither our part of the checkpoint nor Spark's says where it is. Only Spark's log of recorded files does (Kafka's offsets
would not), and when it starts it wants to see the last one; so that one is kept, and the log is written for the place.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from app.bucket.family import is_family_state
from app.cep.snapshot.state import engine_of
from app.config.settings import Settings, load_settings
from app.owners.inventory import BucketInventory, inventory
from app.owners.snapshots import read_snapshot
from app.owners.state_log import state_log
from app.pipeline.numbers import load_numbers
from app.storage.open import open_store
from tests.spark.recorded import PARTITIONS, KnownSchemas, run_recorded

CHECKPOINT, TOPICS, COMING, SETTINGS, EXPECTED = "checkpoint", "topics", "coming", "settings.yaml", "expected.json"
FILE_LOG = f"{CHECKPOINT}/spark/sources/0"
SOMEWHERE = "file:///somewhere/topics"
"""What the log of recorded files says in an archive."""


class OwnSchemas(KnownSchemas):
    """The registry of the folder, which knows writers' schemas only while it is asked to teach."""

    def __init__(self, folder: Path, *, teaches: bool) -> None:
        super().__init__(folder / "schemas")
        self._teaches = teaches

    def teach(self, keeping: Any) -> None:
        """Later versions find in the checkpoint what the first one put there."""
        if self._teaches:
            super().teach(keeping)


@dataclass(slots=True)
class KeptApplication:
    """The application of a folder.

    Attributes:
        told: how often each composite event was told, as topic and identity.
        teaches: whether it is the first one there.
    """

    folder: Path
    told: Counter[str] = field(default_factory=Counter)
    teaches: bool = False

    @property
    def checkpoint(self) -> str:
        """Where it is now."""
        return str(self.folder / CHECKPOINT)

    def settings(self) -> Settings:
        """The folder's, with what depends on the place."""
        here = yaml.safe_load((self.folder / SETTINGS).read_text(encoding="utf-8"))
        here |= {"checkpoint": {"path": self.checkpoint}, "http": {"host": "127.0.0.1", "port": 0}}
        here |= {"schema_registry": {"on_registry_down": "dead_letter"}}  # there is none to wait for
        file = self.folder / "run.yaml"
        file.write_text(yaml.safe_dump(here), encoding="utf-8")
        return load_settings(file, {})

    def arrive(self, files: int | None = None) -> None:
        """The next recorded files come to where the application reads."""
        (self.folder / TOPICS).mkdir(exist_ok=True)
        for file in sorted((self.folder / COMING).iterdir())[:files]:
            file.rename(self.folder / TOPICS / file.name)

    def run(self, spark: Any) -> None:
        """Over the files that are there, until they are used up."""
        registry = OwnSchemas(self.folder, teaches=self.teaches)
        run_recorded(spark, self.settings(), str(self.folder / TOPICS), registry, self._take, before=_every_partition)

    def buckets(self) -> list[BucketInventory]:
        """What the checkpoint holds of each."""
        return list(inventory(open_store(self.checkpoint), load_numbers(self.checkpoint).home.folder).buckets)

    def engines(self) -> set[str]:
        """Whose states the newest snapshots hold."""
        found = set()
        for bucket in self.buckets():
            state = state_log(open_store(self.checkpoint), load_numbers(self.checkpoint).home.folder, bucket.number)
            parts = read_snapshot(state, bucket.listing.generations[-1]).parts
            states = [bytes(part) for name, part in parts.items() if name.startswith("engine-")]
            found |= {"family" if is_family_state(part) else engine_of(part) for part in states}
        return found

    def _take(self, batch: int, table: pa.Table) -> None:
        for row in table.to_pylist():
            self.told.update(f"{row['topic']} {h['value'].decode()}" for h in row["headers"] or () if h["key"] == "ce_id")


def packed(application: KeptApplication, expected: Counter[str], archive: Path) -> None:
    """Packs the folder, and what is to be told when the rest has come, for `unpacked`."""
    assert set(expected.values()) | set(application.told.values()) == {1}
    coming = sorted(set(expected) - set(application.told))
    folder = application.folder
    (folder / EXPECTED).write_text(json.dumps(coming, indent=0) + "\n", encoding="utf-8")
    _say_where(folder, (folder / TOPICS).as_uri(), SOMEWHERE)
    left_out = {"run.yaml", *(file.name for file in sorted((folder / TOPICS).iterdir())[:-1])}
    with tarfile.open(archive, "w:xz", preset=9) as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name not in left_out and path.suffix != ".crc":  # Spark does without its checksums
                file.add(path, path.relative_to(folder), filter=_of_nobody)


def unpacked(archive: Path, folder: Path) -> tuple[KeptApplication, list[str]]:
    """The application as it stopped, and what it is to tell when the rest has come."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    _say_where(folder, SOMEWHERE, (folder / TOPICS).as_uri())
    return KeptApplication(folder), json.loads((folder / EXPECTED).read_text(encoding="utf-8"))


def _say_where(folder: Path, before: str, now: str) -> None:
    for file in (folder / FILE_LOG).glob("[0-9]*"):
        text = file.read_text(encoding="utf-8")
        assert before in text
        file.write_text(text.replace(before, now), encoding="utf-8")


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _every_partition(ready: Any) -> None:
    ready.plane.assign((topic, partition) for topic in ready.deployment.topics for partition in range(PARTITIONS))
