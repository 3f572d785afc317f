"""When a bucket's next snapshot is due: by what a rebuild would have to read, and by batches, not in all buckets at once."""

from __future__ import annotations

import pytest

from app.owners.snapshots import AFTER_BYTES, AFTER_ENTRIES, is_due


@pytest.mark.parametrize(
    ("entries", "entry_bytes", "snapshot_bytes", "due"),
    [
        (0, 0, 0, False),
        (AFTER_ENTRIES - 1, AFTER_BYTES, 0, False),
        (AFTER_ENTRIES, 1, 0, True),
        (3, AFTER_BYTES + 1, 0, True),
        (3, AFTER_BYTES + 1, 2 * AFTER_BYTES, False),
        (3, 2 * AFTER_BYTES + 1, 2 * AFTER_BYTES, True),
    ],
)
def test_a_snapshot_is_due_when_the_log_has_outgrown_the_last_one(
    entries: int, entry_bytes: int, snapshot_bytes: int, *, due: bool
) -> None:
    assert is_due(entries, entry_bytes, snapshot_bytes) is due


def test_buckets_of_equal_logs_are_due_in_different_batches() -> None:
    first = [next(n for n in range(AFTER_ENTRIES + 1) if is_due(n, 1, 0, bucket * 97 % 256)) for bucket in range(80)]
    assert len(set(first)) == 80
    assert min(first) >= AFTER_ENTRIES - 255
