"""``cep explain --why-not FILE``: how far each partial match came, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from app.cep.why_not.diagnosis import Diagnosis
from app.cep.why_not.plain_events import Seen, Stream, shown_value
from app.cep.why_not.reasons import Reason
from app.cep.why_not.why_not import MOST_RUNS, Answer, Partial, Refused, why_not, why_not_these
from app.cli.inputs.events import ReplayInput
from app.cli.progress import Progress
from app.cli.queries.why_not_input import QueryEvents, events_of
from app.cli.queries.why_not_temporal import why_not_temporal
from app.errors import CepError
from app.events.types import Kind
from app.query.compile import Compilation, Compiled
from app.query.planning.planning import plan_as_runs
from app.query.resolved import resolved as r

SHOWN = 4
"""Refused events that are told per item; the others are counted."""
_CAUSES = {
    "predicate": "a predicate", "negation": "a negation", "different": "no difference", "strategy": "the strategy", "until": "UNTIL",
    "gap": "max_gap", "window": "the window", "test": "a condition on the event alone", "key": "another or no [attr]", "type": "its type",
}  # fmt: skip


def explain_why_not(query: Compiled, source: ReplayInput, form: str, expect: str | None, compiled: Compilation) -> str:
    """Why a file of events gave no match, or not the expected one.

    Args:
        query: with a plan for the file's schemas.
        source: the file.
        form: text or json.
        expect: positions as `cep replay` writes them, separated by commas.
        compiled: all queries, of which this one may read some. Those that found nothing are explained behind it.

    Raises:
        CepError: a query that has no pattern, positions that are no events of the file.
    """
    if form not in ("text", "json"):
        raise CepError(f'there is no format "{form}" for --why-not; the formats are text, json')
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors; cep validate shows them')
    events = events_of(query.plan, compiled.catalog, source)
    if query.plan.temporal is not None:
        if expect is not None:
            raise CepError("--expect is for patterns\nhint: leave it out; what was merged is told with its lines")
        return _with_silent(why_not_temporal(query.plan, events, form), events, source, form, compiled)
    diagnosis = Diagnosis(_stream(query, events))
    if expect is None:
        progress = Progress("following partial matches, events", len(diagnosis.stream.events))
        answer = why_not(diagnosis, advance=progress.advance)
        progress.end()
        told = _text(query, answer, diagnosis) if form == "text" else _json(query, answer, diagnosis)
        return _with_silent(told, events, source, form, compiled)
    found = why_not_these(diagnosis, _wanted(diagnosis, expect))
    if form == "json":
        plain = {
            "query": query.name,
            "expected": expect,
            "match": found is None,
            "partial": None if found is None else _plain(found, diagnosis),
        }
        return orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode() + "\n"
    if found is None:
        return f"the events {expect} are a match of {query.name}{_chosen(diagnosis)}\n"
    return "\n".join([f"why {query.name} does not match the events {expect}:", *_lines(found, diagnosis, "it came so far: ")]) + "\n"


def _stream(query: Compiled, events: QueryEvents) -> Stream:
    assert isinstance(query.resolved, r.Resolved)  # noqa: S101 - it has a plan and is not temporal
    return Stream(plan_as_runs(query.resolved), events.batch, events.lines)


def _with_silent(told: str, events: QueryEvents, source: ReplayInput, form: str, compiled: Compilation) -> str:
    """The answer, and behind it that of every query that should have been read and found nothing."""
    silent = [one for one in compiled.queries if one.name in events.silent]
    answers = [explain_why_not(one, source, form, None, compiled) for one in silent]
    if form == "json":
        plain = {**orjson.loads(told), "silent": [orjson.loads(one) for one in answers]} if answers else orjson.loads(told)
        return orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode() + "\n"
    return "".join([told, *(f"it reads {one.name}, which found nothing:\n{answer}" for one, answer in zip(silent, answers, strict=True))])


def _wanted(diagnosis: Diagnosis, expect: str) -> list[Seen]:
    lines = {str(event.line): event for event in diagnosis.stream.events}
    found = []
    for position in dict.fromkeys(one.strip() for one in expect.split(",")):
        if (event := lines.get(position if "/" in position else position.lstrip("0") or position[:1])) is None:
            raise CepError(
                f'--expect {expect}: no event of the query\'s streams is at "{position}"\nhint: positions are lines of the file, from 0 on, as 3,7'
            )
        found.append(event)
    return found


def _text(query: Compiled, answer: Answer, diagnosis: Diagnosis) -> str:
    lines = [f"why not {query.name}: {answer.events:,} events, {answer.matches:,} matches{_chosen(diagnosis) if answer.matches else ''}"]
    if not answer.followed_all:
        lines.append(f"there are very many partial matches; the first {MOST_RUNS:,} were followed, and counted: a smaller file tells more")
    for number, partial in enumerate(answer.partials):
        head = "nothing began: " if not partial.bound else "the furthest: " if number == 0 else f"number {number + 1}: "
        lines += _lines(partial, diagnosis, head)
    return "\n".join(lines) + "\n"


def _chosen(diagnosis: Diagnosis) -> str:
    runs = diagnosis.runs
    what = [f"after: {runs.after}"] * (runs.after != "no-skip") + ["emit: longest"] * runs.longest
    return f" (of which {' and '.join(what)} may keep fewer)" if what else ""


def _lines(partial: Partial, diagnosis: Diagnosis, head: str) -> Iterator[str]:
    bound = ", ".join(f"{name} = {_event(event, diagnosis)}" for name, event in partial.bound)
    needs = partial.lacking > 0 and partial.missing
    yield head + (f"bound {bound}; " if bound else "") + (f"missing {' or '.join(partial.missing)}" if needs else "nothing is missing")
    if partial.ended is not None and partial.ended.cause not in ("window", "gap"):
        # the event that lies behind the window stands among the refused ones
        yield f"  ended: {_reason(partial.ended, needs_line=False)}"
    if partial.lacking == 0 and partial.ended is not None:
        return
    for refused in partial.refused:
        ended = partial.ended is not None and partial.ended.cause in ("strategy", "negation")
        yield from _refused(refused, " until it ended" if ended else " behind them" if partial.bound else "", diagnosis)


def _refused(refused: Refused, where: str, diagnosis: Diagnosis) -> Iterator[str]:
    types = next(("/".join(item.types) or "any" for item in diagnosis.plan.items if refused.item in (item.variable, f"#{item.index}")), "")
    count = len(refused.reasons)
    yield f"  {refused.item}: {count or 'no'} event{'s' if count != 1 else ''} of type {types} came{where}"
    for reason in refused.reasons[:SHOWN]:
        yield f"    {_reason(reason)}"
    left = Counter(_CAUSES[reason.cause] for reason in refused.reasons[SHOWN:])
    if left:
        yield f"    {sum(left.values())} more: " + ", ".join(f"{number} by {cause}" for cause, number in left.items())


def _reason(reason: Reason, *, needs_line: bool = True) -> str:
    return f"line {reason.event.line}: {reason.text}" if needs_line and reason.event is not None else reason.text


def _event(event: Seen, diagnosis: Diagnosis) -> str:
    kinds = {bool: Kind.BOOLEAN, str: Kind.STRING, bytes: Kind.BYTES, float: Kind.FLOAT}
    shown = [
        f"{name}={shown_value(event.attributes[name], kinds.get(type(event.attributes[name]), Kind.INTEGER))}"
        for name in diagnosis.plan.columns
        if name in event.attributes
    ]
    return f"line {event.line} ({', '.join([event.type, *shown])})"


def _json(query: Compiled, answer: Answer, diagnosis: Diagnosis) -> str:
    plain = {
        "query": query.name,
        "events": answer.events,
        "matches": answer.matches,
        "followed_all": answer.followed_all,
        "partials": [_plain(partial, diagnosis) for partial in answer.partials],
    }
    return orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode() + "\n"


def _plain(partial: Partial, diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "bound": [{"var": name, "position": event.line} for name, event in partial.bound],
        "lacking": partial.lacking,
        "missing": list(partial.missing),
        "ended": None if partial.ended is None else _plain_reason(partial.ended),
        "refused": [{"item": one.item, "events": [_plain_reason(reason) for reason in one.reasons]} for one in partial.refused],
    }


def _plain_reason(reason: Reason) -> dict[str, Any]:
    return {"cause": reason.cause, "position": None if reason.event is None else reason.event.line, "text": reason.text}
