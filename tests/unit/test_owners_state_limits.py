"""A query whose state is too large: the directive says what share goes, owners end it, tell it, and do the same again from the log."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.control.messages.totals import BatchTotals, add_up
from tests.unit.owners_world import QUERY, World

NARROW = QUERY + "limits: {{state_bytes: 20000}}\n"
FULL, LAST = 3, 6
"""The batch before which half of the partial matches goes, and the number of batches."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, LAST, query=NARROW)
    full = world.batches[FULL]
    world.batches[FULL] = replace(full, directive=replace(full.directive, state_shares={"hasty": 0.5}))
    return world


def run(world: World, first: int, epoch: int) -> tuple[list[BatchTotals], list[list[str]]]:
    """Totals and identities of the batches from this one on, by an owner that begins with it."""
    with closing(world.home()) as home:
        told = [world.advance(home, batch, epoch, why="start") for batch in range(first, LAST)]
    return [add_up(first + k, [report], ["hasty"]) for k, (report, _) in enumerate(told)], [found for _, found in told]


def test_the_share_that_the_directive_says_is_ended_once_and_told(world: World) -> None:
    totals, _ = run(world, 0, 1)
    tallies = [one.queries["hasty"] for one in totals]
    assert [bool(one.evicted_matches) for one in tallies] == [batch == FULL for batch in range(LAST)]
    full = tallies[FULL]
    assert full.evicted_matches == full.ended_matches
    assert full.ended_matches == pytest.approx(full.judged_matches / 2, abs=2)
    assert full.limited() == {"state_bytes": full.evicted_matches}
    assert all(one.state_bytes > 64 * one.partial_matches > 0 for one in tallies)
    assert full.state_bytes < tallies[FULL - 1].state_bytes


def test_an_owner_that_begins_later_finds_the_same(world: World) -> None:
    totals, found = run(world, 0, 1)
    for first in (FULL, FULL + 1):
        again, ids = run(world, first, 1 + first)
        assert ids == found[first:]
        assert [one.queries["hasty"].state_bytes for one in again] == [one.queries["hasty"].state_bytes for one in totals[first:]]
        assert [one.queries["hasty"].evicted_matches for one in again] == [one.queries["hasty"].evicted_matches for one in totals[first:]]


def test_what_is_ended_finds_nothing_any_more_and_nothing_else_is_lost(world: World, tmp_path: Path) -> None:
    _, found = run(world, 0, 1)
    (tmp_path / "whole").mkdir()
    whole = World(tmp_path / "whole", LAST, query=NARROW)
    _, everything = run(whole, 0, 1)
    assert found[:FULL] == everything[:FULL]
    assert all(set(less) <= set(more) for less, more in zip(found, everything, strict=True))
    assert sum(map(len, found)) < sum(map(len, everything))
