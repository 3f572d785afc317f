"""ASC straight from the paper's definitions: one event, one construct, one query bit at a time. Slow and obvious; imports nothing of what it checks.

A construct is (``qrb``: per region the set of items that it lets through, ``qub``: the set of items that test the attribute).
"""

from __future__ import annotations

from fractions import Fraction


def walk(regions, constructs, everyone, order, arrow):
    """The constructs that an event evaluates, in order, and the items left: section 3.2 and 5.1. ``arrow(construct, region)`` is -1 for none."""
    left, visited, way = set(everyone), set(), []
    current = None
    while left and len(way) < len(order):
        target = -1 if current is None else arrow(current, regions[current])
        if target == -1 or target in visited:
            target = next(number for number in order if number not in visited)
        left &= constructs[target][0][regions[target]]
        visited.add(target)
        way.append(target)
        current = target
    return way, left


def after(regions, constructs, everyone, sequence):
    """The global result bitmap of an event after all these constructs."""
    left = set(everyone)
    for number in sequence:
        left &= constructs[number][0][regions[number]]
    return left


def conditional_selectivity(sample, constructs, everyone, prefix, appended):
    """Definition 3."""
    decided = set().union(*(constructs[number][1] for number in prefix))
    open_items = set(everyone) - decided
    if not open_items or not sample:
        return Fraction(0)
    passed = sum(len(after(regions, constructs, everyone, [*prefix, appended]) & open_items) for regions in sample)
    return Fraction(passed, len(open_items) * len(sample))


def dropping_ratio(sample, constructs, everyone, sequence):
    """Definition 4."""
    return Fraction(sum(not after(regions, constructs, everyone, sequence) for regions in sample), len(sample))


def macro_sequence(sample, constructs, everyone):
    """Section 4.2.2, every step on the same events; ties by the individual selectivity, then by number."""
    tested = set().union(*(usage for _, usage in constructs))
    found = []
    while len(found) < len(constructs):
        rest = [number for number in range(len(constructs)) if number not in found]
        if set().union(*(constructs[number][1] for number in found)) != tested:
            key = {number: (conditional_selectivity(sample, constructs, everyone, found, number), number) for number in rest}
        else:
            single = {number: conditional_selectivity(sample, constructs, everyone, [], number) for number in rest}
            key = {number: (-dropping_ratio(sample, constructs, everyone, [*found, number]), single[number], number) for number in rest}
        found.append(min(rest, key=key.get))
    return found
