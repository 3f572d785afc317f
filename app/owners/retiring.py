"""Deployments that nothing can need any more leave the checkpoint: every reload, and every learned model that comes into use, makes another one.

A bucket is rebuilt from its oldest snapshot and the log since then, under the deployments of that time. Which these were is not asked of thousands of files: a deployment that no directive of the batch log names is noted
with the newest batch of then, and goes when all buckets' logs begin behind that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from app.owners.deployment import FOLDER, prune_deployments
from app.storage.frames import read_frame, write_frame
from app.storage.store import MissingError, Store

FILE, KIND, FORMAT = "retired.bin", "retired-deployments", 1
FEW = 16
"""So many may lie there; then it is not worth looking through all buckets' files."""
_ENTRY = re.compile(r"([^/]+)/log-(\d{12})-\d+\.bin$")


def prune_retired(store: Store, state: str, named: Collection[str], newest: int) -> list[str]:
    """Deletes deployments that are not needed any more, and models that only they name; returns their fingerprints.

    Args:
        store: of the checkpoint.
        state: folder of all buckets in it.
        named: fingerprints that directives of the batch log name, or that come.
        newest: batch that has a directive.

    Raises:
        StorageError, SnapshotError: the checkpoint cannot be read or written.
    """
    there = {file.name.removeprefix(f"{FOLDER}/") for file in store.names(FOLDER)}
    if len(there) <= FEW:
        return []
    before = _noted(store)
    noted = {one: before.get(one, newest) for one in sorted(there.difference(named))}
    begin = oldest_batch(store, state)
    gone = [one for one, since in noted.items() if begin is not None and since < begin]
    if gone:
        prune_deployments(store, there.difference(gone))
    left = {one: since for one, since in noted.items() if one not in gone}
    if left != before:
        write_frame(store, FILE, KIND, FORMAT, [json.dumps(left).encode()])
    return gone


def oldest_batch(store: Store, state: str) -> int | None:
    """The batch from which on some bucket may be rebuilt: its log begins with the next one; None without a log."""
    begins: dict[str, int] = {}
    for file in store.names(state):
        if found := _ENTRY.search(file.name):
            batch = int(found[2])
            begins[found[1]] = min(begins.get(found[1], batch), batch)
    return min(begins.values()) - 1 if begins else None


def _noted(store: Store) -> dict[str, int]:
    try:
        found: dict[str, int] = json.loads(bytes(read_frame(store, FILE, KIND, {FORMAT}).parts[0]))
    except MissingError:
        return {}
    return found
