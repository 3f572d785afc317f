"""SHARP's queries without shedding, matched in other ways: how much of the work of holding every partial match is needed at all?

    python -m ops.experiments.sharp_stacks [--events N] [--repeats N]

A pair of queries is an automaton with an OR at the end (`runs`), which holds every partial match, and every event is held against those that it can extend. The same queries apart, where they are sequences, are matched over active instance stacks (`stacks`): an event is pushed once, and only
a last event looks back for what it completes. Printed are seconds of the processor, the least of some repeats in turn, the partial matches that are held at a time, and the matches, which are the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from app.evaluation.operator import Operator
from app.evaluation.partial_matches import MatchLoad, MatchOperator
from app.events.batch import EventBatch
from app.query.plan import Plan
from ops.experiments.sharp_streams import plan_of, stream_of
from ops.experiments.sharp_verdicts import PAIRS


def main() -> None:
    """Prints a row per pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    print("| pair | partial matches at a time | matches | runs, us per event | its two queries apart | times |")
    print("|---|---|---|---|---|---|")
    for pair in PAIRS:
        print(row(pair, stream_of(pair, chosen.events, 1), chosen.repeats), flush=True)


def row(pair: str, batch: EventBatch, repeats: int) -> str:
    """One row of the table.

    Raises:
        AssertionError: other matches.
    """
    held = MatchOperator(plan_of(pair), batch).run(MatchLoad(1.0, 0.0, 0.0, bound_s=float("inf"), interval=1000), None).matches
    apart = [plan_of(name, evaluator="") for name in pair.split("+")]
    ways = " and ".join("runs" if one.runs is not None else "stacks" for one in apart)
    spent: dict[str, list[float]] = {"together": [], "apart": []}
    for _ in range(repeats):
        together, seconds = timed(lambda: [plan_of(pair)], batch)
        spent["together"].append(seconds)
        found, seconds = timed(lambda: apart, batch)
        spent["apart"].append(seconds)
        assert together == found
    us = {name: 1e6 * min(seconds) / len(batch) for name, seconds in spent.items()}
    return f"| {pair} | {held[1:].mean():,.0f} | {together:,} | {us['together']:.2f} | {us['apart']:.2f} ({ways}) | {us['together'] / us['apart']:.1f} |"


def timed(plans: Callable[[], list[Plan]], batch: EventBatch) -> tuple[int, float]:
    """Matches of all plans, and the seconds of the processor that they took."""
    operators = [Operator(plan, batch) for plan in plans()]
    begun = time.process_time()
    found = sum(len(operator.run()) for operator in operators)
    return found, time.process_time() - begun


if __name__ == "__main__":
    main()
