"""Which matches ``after:`` keeps, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.cep.cells.arrays import CELL_OFFSET, CELL_SOURCE, CELL_TIME, Integers, signed
from app.cep.matches import Constituents
from app.cep.policies import arrays as at
from app.cep.policies.kernels_order import keep_behind_borders, order_ties

_KINDS = {"skip-past-last-event": at.PAST_LAST, "skip-to-next": at.NEXT, "skip-to-first": at.FIRST_OF, "skip-to-last": at.LAST_OF}


@dataclass(frozen=True, slots=True)
class Rule:
    """What ``after:`` says of a plan.

    Attributes:
        units: int64 (units, 2), what decides between matches with the same first and last events, see `app.cep.policies.arrays`.
        border: int64 (2,), kind of the border, and the items that it is about.
    """

    units: Integers
    border: Integers

    @staticmethod
    def of(policy: str, items: Iterable[int], units: Sequence[tuple[Iterable[int], bool]]) -> Rule:
        """Of a policy as queries name it, the items of its variable, and the units in textual order (items, whether it takes as few as it can)."""
        rows = [[_mask(own), int(reluctant)] for own, reluctant in units]
        return Rule(np.array(rows, np.int64).reshape(-1, 2), np.array([_KINDS[policy], _mask(items)], np.int64))


def _mask(items: Iterable[int]) -> int:
    return signed(sum({1 << item for item in items}))


def kept_by(rule: Rule, bound: Constituents, groups: Integers, cells: Integers, borders: Integers) -> NDArray[np.bool_]:
    """Which of some matches are told.

    Args:
        rule: of the plan.
        bound: their events, in total order.
        groups: int64 (matches,), their partitions and windows by number.
        cells: of all events; rows of a partition stand in total order.
        borders: int64 (groups, BORDER_WIDTH), in-out.
    """
    kept = np.zeros(len(groups), np.bool_)
    if len(groups):
        keep_behind_borders(_order(rule, bound, groups), groups, bound.starts, bound.items, bound.rows, cells, borders, rule.border, kept)
    return kept


def _order(rule: Rule, bound: Constituents, groups: Integers) -> Integers:
    """Matches by group, first and last event, and then by what units say."""
    first, last = bound.rows[bound.starts[:-1]], bound.rows[bound.starts[1:] - 1]
    order = np.lexsort((last, first, groups)).astype(np.int64)
    keys = np.stack([groups[order], first[order], last[order]])
    begins = np.flatnonzero(np.concatenate([[True], (keys[:, 1:] != keys[:, :-1]).any(axis=0)]))
    if len(begins) < len(order):
        blocks = np.concatenate([begins, [len(order)]]).astype(np.int64)
        order_ties(bound.starts, bound.items, bound.rows, rule.units, blocks, order)
    return order


def note_rows(bound: Constituents, groups: Integers, cells: Integers, rows: int, borders: Integers) -> None:
    """Finds the rows of borders at whose time a match begins: places do not order composite events of one time, rows do.

    Args:
        bound: as in `kept_by`.
        groups: likewise.
        cells: likewise; row 0 is nobody's.
        rows: how many of them there are.
        borders: in-out. A border whose event is no longer here keeps its place alone.
    """
    first = bound.rows[bound.starts[:-1]]
    at_border = (borders[groups, at.SET] != 0) & (cells[first, CELL_TIME] == borders[groups, at.BORDER_TIME])
    if not at_border.any():
        return
    near = np.flatnonzero(np.isin(cells[1:rows, CELL_TIME], cells[first[at_border], CELL_TIME])) + 1
    places = cells[near][:, [CELL_TIME, CELL_SOURCE, CELL_OFFSET]].tolist()
    row_at = {tuple(place): row for place, row in zip(places, near.tolist(), strict=True)}
    for group in np.unique(groups[at_border]).tolist():
        place = tuple(borders[group, at.BORDER_TIME : at.BORDER_OFFSET + 1].tolist())
        borders[group, at.BORDER_ROW] = row_at.get(place, -1) + 1


def numbered_groups(columns: Sequence[Integers], count: int) -> tuple[Integers, Integers]:
    """Numbers rows that are equal in all columns.

    Returns:
        int64 (count,), the number of every row; a row of each number.
    """
    order = np.lexsort(columns) if columns else np.arange(count)
    fresh = np.zeros(count, np.bool_)
    fresh[:1] = True
    for column in columns:
        ordered = column[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    groups = np.empty(count, np.int64)
    groups[order] = np.cumsum(fresh) - 1
    return groups, order[fresh]
