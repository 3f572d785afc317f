"""Which matches ``after:`` keeps, as columns: what going through them one by one in plain Python gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME
from app.cep.matches import Constituents
from app.cep.policies.after import Rule, kept_by
from app.cep.policies.arrays import ALREADY, BORDER_TIME, BORDER_WIDTH, SET
from app.cep.policies.kernels_beginnings import mark_present

KINDS = ["skip-past-last-event", "skip-to-next", "skip-to-first", "skip-to-last"]
ITEMS = 4


def plainly_kept(
    policy: str, own: list[int], units: Any, matches: list[Any], places: list[Any], borders: dict[int, list[Any]]
) -> list[int]:
    """Numbers of the matches (group, items, rows) that are kept, and borders moved: (place, whether an event right there lies at it)."""

    def order(k: int) -> Any:
        group, items, rows = matches[k]
        key = []
        for members, reluctant in units:
            bound = [row for item, row in zip(items, rows, strict=True) if item in members]
            key.append((len(bound) if reluctant else -len(bound), bound))
        return group, rows[0], rows[-1], key, k

    kept = []
    for k in sorted(range(len(matches)), key=order):
        group, items, rows = matches[k]
        first = places[rows[0]]
        if group in borders and (first < borders[group][0] or (first == borders[group][0] and borders[group][1])):
            continue
        kept.append(k)
        bound = [row for item, row in zip(items, rows, strict=True) if item in own]
        if policy in ("skip-past-last-event", "skip-to-next"):
            borders[group] = [places[rows[-1 if policy == "skip-past-last-event" else 0]], True]
        elif bound and (target := bound[0 if policy == "skip-to-first" else -1]) != rows[0]:
            borders[group] = [places[target], False]
    return sorted(kept)


@settings(max_examples=6 * settings.default.max_examples)
@given(st.data())
def test_columns_keep_what_one_after_the_other_keeps(data: st.DataObject) -> None:
    events = data.draw(st.integers(1, 8))
    places = sorted(data.draw(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=events, max_size=events, unique=True)))
    cells = np.zeros((events, 8), np.int64)
    for row, place in enumerate(places):
        cells[row, [CELL_TIME, CELL_SOURCE, CELL_OFFSET]] = place
    policy = data.draw(st.sampled_from(KINDS))
    own = data.draw(st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=2, unique=True))
    units = data.draw(st.lists(st.tuples(st.sets(st.integers(0, ITEMS - 1), min_size=1, max_size=3), st.booleans()), max_size=4))
    rule, borders, plain = Rule.of(policy, own, units), np.zeros((3, BORDER_WIDTH), np.int64), {}
    for _ in range(data.draw(st.integers(1, 3))):
        matches = []
        for _ in range(data.draw(st.integers(0, 9))):
            rows = sorted(data.draw(st.sets(st.integers(0, events - 1), min_size=1, max_size=4)))
            items = data.draw(st.lists(st.integers(0, ITEMS - 1), min_size=len(rows), max_size=len(rows)))
            matches.append((data.draw(st.integers(0, 2)), items, rows))
        starts = np.cumsum([0, *(len(rows) for _, _, rows in matches)], dtype=np.int64)
        bound = Constituents(starts, *(np.array([one for match in matches for one in match[part]], np.int64) for part in (1, 2)))
        kept = np.flatnonzero(kept_by(rule, bound, np.array([match[0] for match in matches], np.int64), cells, borders)).tolist()
        expected = plainly_kept(policy, own, units, matches, places, plain)
        event("some are not kept" if len(expected) < len(matches) else "all are kept")
        assert kept == expected
        known = {group: [tuple(row[BORDER_TIME:ALREADY].tolist()), bool(row[ALREADY])] for group, row in enumerate(borders) if row[SET]}
        assert known == plain


@given(st.lists(st.integers(-3, 70), max_size=40), st.lists(st.integers(-3, 70), max_size=80))
def test_what_is_a_beginning_of_another_match_is_found(own: list[int], others: list[int]) -> None:
    spread = [np.array([one * 64 if one % 3 else one for one in part], np.int64) for part in (own, others)]
    present = np.zeros(len(own), np.bool_)
    mark_present(*spread, present)
    assert present.tolist() == np.isin(*spread).tolist()
