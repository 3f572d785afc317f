"""Verdicts on composite events, as records of the audit topic (`schemas/Verdict.avsc`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.audit.verdicts import Verdict, Verdicts
from app.bucket.matching import Found
from app.control.messages.directives import Directive
from app.events.topics import topic_partition
from app.owners.deployment import OutputTopic
from app.owners.egress import Records, add_audit_record
from app.query.plan import Plan


@dataclass(frozen=True, slots=True)
class Judged:
    """What a query found in the batch, and what is to be said of it.

    Attributes:
        ids: of the composite events.
        verdicts: on them, in the same order.
        withheld: whether they are not written.
    """

    plan: Plan
    ids: Sequence[str]
    verdicts: Verdicts
    withheld: bool = False


def add_verdicts(records: Records, judged: Judged, output: OutputTopic, *, topics: Sequence[str], directive: Directive) -> None:
    """One record for every composite event of which there is something to tell.

    Args:
        records: added to.
        judged: composite events.
        output: where verdicts go.
        topics: by number (`app.events.topics`).
        directive: of the batch.
    """
    plan = judged.plan
    for place, told in _told(judged.verdicts, topics):
        value = {
            "time": directive.decided_at_ms,
            "query": plan.name,
            "version": plan.version,
            "batch_id": directive.batch,
            "composite_event": judged.ids[place],
            **told,
            "withheld": judged.withheld,
        }
        add_audit_record(records, output, plan.name, value)


def counted(found: Found) -> dict[str, int]:
    """Counts of `app.control.messages.reports.QueryTally`."""
    held = [one for one in (found.withheld, found.withheld_timeouts) if one is not None]
    judged = [one for one in (found.verdicts, found.timeout_verdicts, *(verdicts for _, verdicts in held)) if one is not None]
    codes = np.concatenate([np.zeros(0, np.uint8), *(one.codes for one in judged)])
    names = {Verdict.CONFIRMED: "confirmed", Verdict.FALSE_POSITIVE: "refuted", Verdict.UNVERIFIABLE: "unverifiable"}
    withheld = sum(len(matches) for matches, _ in held)
    of_timeouts = np.zeros(0, np.uint8) if found.timeout_verdicts is None else found.timeout_verdicts.codes
    timeouts = {
        f"{names[code]}_timeouts": int(np.count_nonzero(of_timeouts == code)) for code in (Verdict.FALSE_POSITIVE, Verdict.UNVERIFIABLE)
    }
    return {name: int(np.count_nonzero(codes == code)) for code, name in names.items()} | {"withheld": withheld} | timeouts


def _told(verdicts: Verdicts, topics: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for place in verdicts.told.tolist():
        source, offset = verdicts.refuted_by[place].tolist()
        by = None
        if source >= 0:
            topic, partition = topic_partition(topics, source)
            by = {"topic": topic, "partition": partition, "offset": offset}
        yield place, {"verdict": Verdict(verdicts.codes[place]).name, "refuted_by": by}
