"""States of alternatives, put together and taken apart: alternative by alternative; see `app.cep.snapshot.regroup`."""

from __future__ import annotations

from collections.abc import Sequence

from app.cep.alternatives.engine import apart, split, together
from app.cep.snapshot.preamble import Buffer
from app.cep.snapshot.regroup import Owner
from app.cep.stacks import regroup
from app.query.plan import Plan


def merged(plan: Plan, states: Sequence[Buffer]) -> Buffer:
    """One state of the partitions of all. Events that came to different buckets are in different partitions: when they came is not compared.

    Raises:
        SnapshotError: one of them is no state of the plan.
    """
    opened = [apart(plan, state) for state in states]
    whole = [[regroup.merged(own.plan, [parts[number] for _, parts in opened])] for number, own in enumerate(split(plan))]
    return b"".join(together(plan, max(arrived for arrived, _ in opened), whole))


def parted(plan: Plan, state: Buffer, owner: Owner, parts: int) -> list[Buffer]:
    """The state's partitions, by the part that each goes to.

    Raises:
        SnapshotError: it is no state of the plan.
    """
    arrived, states = apart(plan, state)
    by_alternative = [regroup.parted(own.plan, data, owner, parts) for own, data in zip(split(plan), states, strict=True)]
    return [b"".join(together(plan, arrived, [[own[part]] for own in by_alternative])) for part in range(parts)]
