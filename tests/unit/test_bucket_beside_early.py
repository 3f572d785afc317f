"""Shed events of the control sample that wait for the watermark: in one piece, and untouched until it has passed one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.bucket.beside import Events, _Early
from app.events.batch import events_of_types, take

STEPS, TASKS, LATENESS_MS = 120, 8, 50


def pieces(step: int) -> list[Events]:
    """Of each task, one event of this ms or of some before; and one that has none."""
    batches = [events_of_types(["A"], time=[step - task % 3]) for task in range(TASKS)] + [events_of_types([], time=[])]
    return [(batch, np.full((len(batch), 1), step, np.uint64)) for batch in batches]


def test_each_is_given_out_once_when_the_watermark_has_passed_it() -> None:
    early, given = _Early(), 0
    for step in range(STEPS):
        early.add(pieces(step))
        for batch, bitmaps in early.due(step - LATENESS_MS):
            assert (batch.time < step - LATENESS_MS).all()
            assert (bitmaps[:, 0] - batch.time.astype(np.uint64) < 3).all(), "each with its own items"
            given += len(batch)
        assert len(early) == TASKS * (step + 1) - given
    ((batch, _),) = early.due(STEPS)
    assert (len(early), given + len(batch)) == (0, TASKS * STEPS)


def test_they_are_in_one_piece_and_nobody_looks_at_them_before_one_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    early, looks, parts = _Early(), list[int](), set[int]()

    def counted(batch: Any, rows: Any) -> Any:
        looks.append(len(batch))
        return take(batch, rows)

    monkeypatch.setattr("app.bucket.beside.take", counted)
    for step in range(STEPS):
        early.add(pieces(step))
        early.due(min(step, 20) - LATENESS_MS)
        parts.add(len(early._parts))
    assert not looks
    for step in range(STEPS, 2 * STEPS):
        early.add(pieces(step))
        early.due(step - LATENESS_MS)
        parts.add(len(early._parts))
        assert len(early._parts) == 1
    assert len(looks) == 2 * STEPS, "what goes and what stays"
    assert max(parts) == STEPS, "one a step while it stands"
