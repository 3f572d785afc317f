"""SHARP's workloads: streams DS1 and DS2, queries Q1 to Q6, and their pairs as one query each, which shares what they have in common.

**Source:** Yu, Shi, Weidlich, Zhao: *SHARP* (arXiv 2507.04872, VLDB 2026), section 6.1 and table 2; specification section 4.

Windows are time windows over events 1 ms apart, so that a window of 1,000 ms is the paper's window of 1,000 events. Every subsequence that fits is a match (skip-till-any-match).
"""

from __future__ import annotations

import numpy as np

from app.events.batch import EventBatch
from app.events.types import Kind, StreamSchema
from app.query.compile import compile_texts
from app.query.plan import Plan
from ops.experiments.shedding_data import batch_of, schema_of

DS1_TYPES, DS2_TYPES = list("ABCDEFGHIJ"), list("ABCDEF")
DS1_SCHEMA = schema_of(DS1_TYPES, id=Kind.INTEGER, x=Kind.FLOAT, y=Kind.FLOAT, v=Kind.FLOAT)
DS2_SCHEMA = schema_of(DS2_TYPES, id=Kind.INTEGER, x=Kind.INTEGER)

_FLIGHT = "a.v < b.v AND b.v + c.v < d.v"
_NEAR_E = "haversine(d.x, d.y, e.x, e.y) <= f.v"
_NEAR_H = "haversine(d.x, d.y, h.x, h.y) <= i.v"
_SMALL_C = "sum(b.x) < c.x"
_SMALL_E = "a.x + sum(b.x) < e.x + f.x"

QUERIES: dict[str, tuple[str, str, StreamSchema, int]] = {
    "Q1": ("SEQ(A a, B b+, C c, D d)", _SMALL_C, DS2_SCHEMA, 500),
    "Q2": ("SEQ(A a, B b+, E e, F f)", _SMALL_E, DS2_SCHEMA, 500),
    "Q1+Q2": ("SEQ(A a, B b+, OR(SEQ(C c, D d), SEQ(E e, F f)))", f"{_SMALL_C} AND {_SMALL_E}", DS2_SCHEMA, 500),
    "Q3": ("SEQ(A a, B b, C c, D d, E e, F f, G g)", f"{_FLIGHT} AND {_NEAR_E}", DS1_SCHEMA, 1000),
    "Q4": ("SEQ(A a, B b, C c, D d, H h, I i, J j)", f"{_FLIGHT} AND {_NEAR_H}", DS1_SCHEMA, 1000),
    "Q3+Q4": (
        "SEQ(A a, B b, C c, D d, OR(SEQ(E e, F f, G g), SEQ(H h, I i, J j)))",
        f"{_FLIGHT} AND {_NEAR_E} AND {_NEAR_H}",
        DS1_SCHEMA,
        1000,
    ),
    "Q5": ("SEQ(A a, B b, !(C c), D d)", "a.x < b.x", DS2_SCHEMA, 1000),
    "Q6": ("SEQ(A a, B b, !(C c), E e)", "", DS2_SCHEMA, 1000),
    "Q5+Q6": ("SEQ(A a, B b, !(C c), OR(D d, E e))", "(a.x < b.x OR d.x > 100)", DS2_SCHEMA, 1000),
}
"""Pattern, predicates beside the same ID, stream, window in events. In the last pair, a comparison with what is not bound is true, so that Q5's
predicate is not asked of a match of Q6; ``d.x`` is never above 100."""


def ds1(events: int, seed: int) -> EventBatch:
    """Ten types, ten IDs, a place on earth, and a distance in metres."""
    random = np.random.default_rng([seed, 101])
    kinds, own = random.integers(0, 10, events), random.integers(1, 11, events)
    x, y = random.uniform(-90, 90, events), random.uniform(-180, 180, events)
    return batch_of(DS1_TYPES, kinds, np.arange(events), id=own, x=x, y=y, v=random.uniform(1, 3e6, events))


def ds2(events: int, seed: int) -> EventBatch:
    """Six types, 25 IDs, a number."""
    random = np.random.default_rng([seed, 102])
    return batch_of(
        DS2_TYPES, random.integers(0, 6, events), np.arange(events), id=random.integers(1, 26, events), x=random.integers(1, 101, events)
    )


def plan_of(name: str, evaluator: str = "runs") -> Plan:
    """A query, or a pair.

    Args:
        name: of `QUERIES`.
        evaluator: which must match it; empty: which the product takes.

    Raises:
        ValueError: its text is no query.
    """
    event, where, schema, window = QUERIES[name]
    conditions = f"[id] AND {where}" if where else "[id]"
    way = f"evaluator: {evaluator}\n" if evaluator else ""
    text = f'name: {name.lower().replace("+", "-")}\nfrom: s\nevent: "{event}"\nwhere: "{conditions}"\nwithin: {window} ms\n{way}return: {{id: a.id}}\n'
    compilation = compile_texts([("query.yaml", text)], {"s": schema})
    if compilation.errors:
        raise ValueError(compilation.errors[0].render())
    return compilation.catalog.plans[0]


def stream_of(name: str, events: int, seed: int) -> EventBatch:
    """The stream that a query is asked of."""
    return (ds1 if QUERIES[name][2] is DS1_SCHEMA else ds2)(events, seed)
