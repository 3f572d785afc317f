"""Streams long enough that windows close, partitions die and come back, and memory grows and shrinks: still what the definitions find."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from tests.naive.language import Attr, Compare, Const, Equivalence, Event, Item, Query
from tests.naive.matching import Assignment, matches
from tests.property.application_way import END, Run, expected, plan_of

KNOWN = {
    name: {"k": "string", "v": "integer", "w": "float"} if name != "D" else {"v": "integer", "s": "string"} for name in ("A", "B", "C", "D")
}
BY_KEY = (Equivalence("k"),)


def items(*texts: str) -> tuple[Item, ...]:
    return tuple(Item((text[-3],), text[-1], negated=text.startswith("!")) for text in texts)


QUERIES = {
    "sequence": Query(items("A a", "B b", "C c"), BY_KEY, (), 900),
    "joined": Query(items("A a", "B b", "A c"), BY_KEY, (Compare("<", Attr("a", "v"), Attr("c", "v")),), 1200),
    "negations": Query(
        items("!C n", "A a", "!B b", "C c"), BY_KEY, (Compare(">", Attr("b", "v"), Const(3, "integer")),), 900
    ),
    "all lack the key": Query(items("A a", "!D d", "B b"), BY_KEY, (Compare("=", Attr("d", "v"), Attr("a", "v")),), 1500),
    "negated end": Query(items("A a", "B b", "!C c"), BY_KEY, (Compare("!=", Attr("c", "w"), Attr("b", "w")),), 1200),
    "same type": Query(items("A a", "!A x", "A b", "!A y", "A c"), BY_KEY, (), 4000),
}  # fmt: skip


def stream(seed: int, events: int, keys: int) -> list[Event]:
    """Keys come in waves: at any time only a tenth of them are active."""
    chance = random.Random(seed)
    made, time = [], 0
    for offset in range(events):
        time += chance.choice([0, 0, 1, 2, 5])
        wave = (time // 5000) * (keys // 20)
        key = f"key-{(wave + chance.randrange(max(1, keys // 10))) % keys}"
        name = chance.choices("ABCD", [5, 5, 4, 1])[0]
        own = {"v": chance.randrange(8)}
        own |= {"s": key} if name == "D" else {"k": None if chance.random() < 0.01 else key, "w": chance.choice([0.5, 1.5])}
        made.append({"type": name, "time": time, "source": 0, "offset": offset, "attributes": own})
    return made


def inside_the_window(query: Query, events: list[Event]) -> Iterator[Assignment]:
    """Assignments in total order that lie within the window: the others cannot be matches, and there are too many of them."""

    def extend(chosen: list[Event], start: int) -> Iterator[list[Event]]:
        if len(chosen) == len(query.positive):
            yield chosen
            return
        types = query.items[query.positive[len(chosen)]].types
        for place in range(start, len(events)):
            if chosen and events[place]["time"] - chosen[0]["time"] >= query.within:
                return
            if events[place]["type"] in types:
                yield from extend([*chosen, events[place]], place + 1)

    for chosen in extend([], 0):
        binds = dict(zip(query.positive, chosen, strict=True))
        yield {i: (binds[i],) if i in binds else () for i in range(len(query.items))}


def by_definition(query: Query, events: list[Event]) -> Counter:
    """The naive engine, key by key."""
    used = {name for item in query.items for name in item.types}
    partitions = defaultdict(list)
    for event in events:
        if (key := event["attributes"].get("k")) is not None:
            partitions[key].append(event)
    everywhere = [event for event in events if "k" not in event["attributes"] and event["type"] in used]
    return sum((expected(matches(query, [*part, *everywhere], inside_the_window), KNOWN) for part in partitions.values()), Counter())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("seed", "keys"), [(1, 600), (2, 3000)])
def test_long_streams_in_batches_with_restarts(name: str, seed: int, keys: int) -> None:
    query, events = QUERIES[name], stream(seed, 8000, keys)
    chance = random.Random(seed)
    run = Run(plan_of(query, KNOWN), KNOWN)
    found: Counter = Counter()
    begin = 0
    while begin < len(events):
        end = min(len(events), begin + chance.choice([1, 50, 700, 3000]))
        if chance.random() < 0.2:
            run.restart()
        watermark = events[end]["time"] if end < len(events) else END
        found += run.feed(events[begin:end], watermark)
        begin = end
    wanted = by_definition(query, events)
    assert sum(wanted.values()) > 50
    assert found == wanted
