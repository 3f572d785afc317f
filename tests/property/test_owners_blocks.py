"""A state that is cut into blocks comes back as it was, from however many snapshots; what is equal is not written again."""

from __future__ import annotations

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import SnapshotError
from app.owners.blocks import GARBAGE, LEAST_WORDS, MOST_WORDS, Known, assembled, cut_up, known_of


def state_of(seed: int, rows: int, dropped: int, odd: int) -> list[tuple[str, list[memoryview]]]:
    """A table of random rows of which the first were dropped, and a text of any length."""
    table = np.random.default_rng(seed).integers(0, 1 << 60, (rows, 4))[dropped:]
    return [("table", [memoryview(table.tobytes())]), ("text", [memoryview(bytes(odd)), memoryview(b"x" * 3)]), ("none", [])]


def written(cut) -> list[memoryview]:
    return [memoryview(block) for block in cut.fresh]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 3),
    rows=st.integers(0, 60_000),
    steps=st.lists(st.integers(0, 9_000), min_size=1, max_size=4),
    odd=st.integers(0, 99),
)
def test_a_chain_of_snapshots_gives_back_every_state(seed, rows, steps, odd):
    known, files, dropped = Known(), {}, 0
    for number, step in enumerate(steps):
        dropped = min(rows, dropped + step)
        state = state_of(seed, rows + 5_000 * number, dropped, odd)
        cut = cut_up(f"s{number}", state, known, deployment="d")
        files[f"s{number}"] = written(cut)
        others = {name: (lambda name=name: files[name]) for name in orjson.loads(cut.head)["files"][1:]}
        back = assembled(cut.head, files[f"s{number}"], others)
        assert {name: bytes(part) for name, part in back.items()} == {name: b"".join(buffers) for name, buffers in state}
        known = known_of(cut.head, 200 + sum(map(len, cut.fresh)))
        total = sum(len(b) for _, buffers in state for b in buffers)
        assert sum(known.files.values()) <= (GARBAGE + 1) * total + 200 * (number + 1), "old files do not pile up"


def test_what_moved_is_not_written_again():
    first = state_of(1, 200_000, 0, 0)
    cut = cut_up("a", first, Known())
    known = known_of(cut.head, sum(map(len, cut.fresh)))
    again = cut_up("b", state_of(1, 200_000, 10_001, 0), known)
    assert sum(map(len, again.fresh)) < 0.1 * sum(map(len, cut.fresh))
    assert sum(map(len, cut_up("b", first, known).fresh)) == 0


def test_blocks_of_any_content_stay_within_their_sizes():
    for words in (np.zeros(1_000_000, dtype=np.int64), np.random.default_rng(0).integers(0, 1 << 62, 1_000_000)):
        sizes = [len(block) for block in cut_up("a", [("t", [memoryview(words).cast("B")])], Known()).fresh]
        assert max(sizes) <= 8 * MOST_WORDS
        assert all(size >= 8 * LEAST_WORDS for size in sizes[:-1])


def test_a_block_that_is_not_what_another_snapshot_names_is_refused():
    cut = cut_up("a", state_of(1, 50_000, 0, 0), Known())
    later = cut_up("b", state_of(1, 50_000, 0, 0), known_of(cut.head, 1_000_000))
    damaged = written(cut)
    damaged[0] = memoryview(bytes(len(damaged[0])))
    with pytest.raises(SnapshotError, match="a: block 1 is not the one"):
        assembled(later.head, written(later), {"a": lambda: damaged})
    with pytest.raises(SnapshotError, match="a has no block"):
        assembled(later.head, written(later), {"a": list})
