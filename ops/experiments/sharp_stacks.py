"""SHARP's queries without shedding, matched in other ways: how much of the work of holding every partial match is needed at all?

    python -m ops.experiments.sharp_stacks [--events N] [--repeats N]

A pair of queries is an automaton with an OR at the end (`runs`), which holds every partial match, and every event is held against those that it can extend. The same queries apart, where they are sequences, are matched over active instance stacks (`stacks`): an event is pushed once, and only
a last event looks back for what it completes. The application does that by itself with the pair, where it can (`alternatives`, `ops/decisions/0046`): the last columns. Printed are seconds of the processor, the least of some repeats in turn, the partial matches that are held at a time, and the matches,
which are the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from app.cep.door import way_of
from app.evaluation.operator import Operator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.events.batch import EventBatch
from app.query.compile import compile_texts
from app.query.plan import Plan
from ops.experiments.sharp_streams import DS2_SCHEMA, plan_of, stream_of
from ops.experiments.sharp_verdicts import PAIRS

SIMPLE = "A, B or C"
"""No pair of SHARP's: ``SEQ(A a, OR(B b, C c))`` over the stream of Q5 and Q6."""


def main() -> None:
    """Prints a row per pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    print(
        "| pair | partial matches at a time | matches | runs, us per event | its two queries apart | times | as the application runs it | times |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for pair in (*PAIRS, SIMPLE):
        print(row(pair, stream_of("Q6" if pair == SIMPLE else pair, chosen.events, 1), chosen.repeats), flush=True)


def plans_of(name: str) -> dict[str, list[Plan]]:
    """A pair for the runs evaluator, its two queries, and the pair as the application runs it."""
    if name != SIMPLE:
        return {"runs": [plan_of(name)], "apart": [plan_of(one, "") for one in name.split("+")], "now": [plan_of(name, "")]}
    together = "SEQ(A a, OR(B b, C c))"
    return {
        "runs": [_simple(together, "evaluator: runs")],
        "apart": [_simple(f"SEQ(A a, {one})") for one in ("B b", "C c")],
        "now": [_simple(together)],
    }


def _simple(pattern: str, way: str = "") -> Plan:
    text = f'name: simple\nfrom: s\nevent: "{pattern}"\nwhere: "[id]"\nwithin: 1000 ms\nreturn: {{id: a.id}}\n{way}\n'
    (plan,) = compile_texts([("query.yaml", text)], {"s": DS2_SCHEMA}).catalog.plans
    return plan


def row(pair: str, batch: EventBatch, repeats: int) -> str:
    """One row of the table.

    Raises:
        AssertionError: other matches.
    """
    plans = plans_of(pair)
    held = MatchOperator(plans["runs"][0], batch).run(MatchLoad(1.0, 0.0, 0.0, bound_s=float("inf"), interval=1000), None).matches
    found, spent = {}, {name: float("inf") for name in plans}
    for _ in range(repeats):
        for name, own in plans.items():
            found[name], seconds = timed(own, batch)
            spent[name] = min(spent[name], seconds)
    assert len(set(found.values())) == 1
    us = {name: 1e6 * seconds / len(batch) for name, seconds in spent.items()}
    columns = [f"{us[name]:.2f} ({' and '.join(map(way_of, plans[name]))}) | {us['runs'] / us[name]:.1f}" for name in ("apart", "now")]
    return f"| {pair} | {held[1:].mean():,.0f} | {found['runs']:,} | {us['runs']:.2f} | {' | '.join(columns)} |"


def timed(plans: Sequence[Plan], batch: EventBatch) -> tuple[int, float]:
    """Matches of all plans, and the seconds of the processor that they took."""
    operators = [Operator(plan, batch) for plan in plans]
    begun = time.process_time()
    found = sum(len(operator.run()) for operator in operators)
    return found, time.process_time() - begun


if __name__ == "__main__":
    main()
