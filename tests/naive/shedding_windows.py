"""eSPICE, BL and E-BL straight from their definitions, in whole numbers and fractions. Imports nothing of what it checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor


@dataclass(frozen=True)
class Pair:
    """An event in a window."""

    type: int
    window: int
    position: int
    size: int
    weight: Fraction = Fraction(0)


def cells(pair: Pair, length: int) -> list[int]:
    """Positions of the table that a position stands for: one where the window is larger than the table, all that it covers where it is smaller."""
    scale = Fraction(max(pair.size, 1), length)
    low = min(floor(pair.position / scale), length - 1)
    if pair.size >= length:
        return [low]
    high = min(ceil((pair.position + 1) / scale) - 1, length - 1)
    return list(range(low, max(low, high) + 1))


@dataclass
class Table:
    length: int
    bin: int
    cells: dict[tuple[int, int], Fraction]
    seen: dict[tuple[int, int], Fraction]
    types: int

    def utility(self, pair: Pair) -> Fraction:
        if pair.type < 0:
            return Fraction(0)
        if pair.type >= self.types:
            total = sum(self.seen.values())
            return sum((self.cells[cell] * self.seen[cell] for cell in self.seen), Fraction(0)) / total if total else Fraction(0)
        covered = cells(pair, self.length)
        return sum((self.cells[pair.type, cell // self.bin] for cell in covered), Fraction(0)) / len(covered)


def learn(pairs: Sequence[Pair], bin_: int, variant: str) -> Table:
    """Composite events per event of a type at a position, or a type's composite events divided among positions; in hundredths."""
    sizes = {pair.window: pair.size for pair in pairs}
    length = max(1, round(sum(sizes.values()) / len(sizes)))
    types = max(pair.type for pair in pairs) + 1
    every = [(type_, column) for type_ in range(types) for column in range(ceil(length / bin_))]
    gained, seen = dict.fromkeys(every, Fraction(0)), dict.fromkeys(every, Fraction(0))
    for pair in pairs:
        if pair.type >= 0:
            covered = cells(pair, length)
            for cell in covered:
                gained[pair.type, cell // bin_] += pair.weight / len(covered)
                seen[pair.type, cell // bin_] += Fraction(1, len(covered))
    found = {}
    for type_, column in every:
        own = [cell for cell in every if cell[0] == type_]
        sum_gained, sum_seen = sum(gained[cell] for cell in own), sum(seen[cell] for cell in own)
        if variant == "row":
            found[type_, column] = Fraction(floor(100 * gained[type_, column] / sum_gained)) if sum_gained else Fraction(0)
        elif seen[type_, column]:
            found[type_, column] = 100 * gained[type_, column] / seen[type_, column]
        else:
            found[type_, column] = 100 * sum_gained / sum_seen if sum_seen else Fraction(0)
    return Table(length, bin_, found, seen, types)


def drop_shares(repetition: Sequence[Fraction], frequency: Sequence[Fraction], ratio: Fraction) -> list[Fraction]:
    """min(1, c / u) of each type, u = repetition / frequency; c is found by halving."""
    free = sum((f for r, f in zip(repetition, frequency, strict=True) if r == 0), Fraction(0))
    if ratio <= free:
        return [ratio / free if r == 0 and free else Fraction(0) for r in repetition]

    def shares(level: Fraction) -> list[Fraction]:
        return [
            Fraction(1) if r == 0 else min(Fraction(1), level * f / r) if f else Fraction(0)
            for r, f in zip(repetition, frequency, strict=True)
        ]

    low, high = Fraction(0), Fraction(10**6)
    for _ in range(80):
        middle = (low + high) / 2
        dropped = sum(d * f for d, f in zip(shares(middle), frequency, strict=True))
        low, high = (middle, high) if dropped < ratio else (low, middle)
    return shares(high)
