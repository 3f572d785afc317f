"""``cep explain --stage automaton``: what is left of the pattern after every event, and what is decided on the way there."""

from __future__ import annotations

from typing import Any

import orjson

from app.cep.runs.drawing import drawn
from app.errors import CepError
from app.query.compile import Compiled
from app.query.explain.stages import STAGES, Stage
from app.query.plan import Plan


def _plan(query: Compiled) -> Plan:
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no automaton; cep validate shows them')
    if query.plan.runs is None:
        raise CepError(
            f'query "{query.name}" has no automaton: the {query.plan.evaluator} evaluator runs it\nhint: --stage plan, asc and code show it'
        )
    return query.plan


def _text(query: Compiled) -> str:
    states, more = drawn(_plan(query))
    lines = ["automaton: what is left of the pattern, and what the next event can be"]
    for state in states:
        lines.append(f"  state {state.number}: {state.left}")
        for edge in state.edges or ():
            if edge.stops:
                lines.append(f"      UNTIL of {edge.item} holds -> {edge.target}")
                continue
            lines.append(f"      {edge.item} -> {edge.target}" + (f"   if {' and '.join(edge.decides)}" if edge.decides else ""))
        if state.ends:
            lines.append("      a match can end here" + (f", if {' and '.join(state.deciding)}" if state.deciding else ""))
    if more:
        lines.append(f"  and more: {more} that follow these {len(states)} directly, and what comes behind them")
    return "\n".join(lines) + "\n"


def _mermaid(query: Compiled) -> str:
    states, more = drawn(_plan(query))
    lines = ["stateDiagram-v2", "  direction LR", "  [*] --> s0"]
    lines += [f'  state "{_label(state.left)}" as s{state.number}' for state in states]
    for state in states:
        for edge in state.edges or ():
            label = f"UNTIL of {edge.item}" if edge.stops else " and ".join((edge.item, *edge.decides))
            target = f"s{edge.target}" if edge.target < len(states) else "more"
            lines.append(f"  s{state.number} --> {target}: {_label(label)}")
        if state.ends:
            lines.append(f"  s{state.number} --> [*]" + (f": {_label(' and '.join(state.deciding))}" if state.deciding else ""))
    if more:
        lines.insert(3, f'  state "{more} more" as more')
    return "\n".join(lines) + "\n"


_CODES = str.maketrans({"#": "#35;", ";": "#59;", ":": "#colon;", '"': "#quot;", "<": "#lt;", ">": "#gt;"})


def _label(text: str) -> str:
    """Text that mermaid takes for text: it reads colons, quotes, semicolons and angle brackets otherwise."""
    return text.translate(_CODES)


def _json(query: Compiled) -> str:
    states, more = drawn(_plan(query))
    answer: dict[str, Any] = {
        "query": query.name,
        "states": [
            {
                "state": state.number,
                "left": state.left,
                "ends": state.ends,
                "deciding": list(state.deciding),
                "edges": [{"item": e.item, "to": e.target, "decides": list(e.decides), "until": e.stops} for e in state.edges or ()],
            }
            for state in states
        ],
        "more": more,
    }
    return orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode() + "\n"


AUTOMATON = Stage(_text, _mermaid, _json)


def _whole_text(query: Compiled) -> str:
    text = STAGES["plan"].text(query)
    return text + _text(query) if query.plan is not None and query.plan.runs is not None else text


def _whole_mermaid(query: Compiled) -> str:
    return _mermaid(query) if query.plan is not None and query.plan.runs is not None else STAGES["plan"].mermaid(query)


PLAN = Stage(_whole_text, _whole_mermaid, STAGES["plan"].json)
"""The plan as `cep explain` shows it: with the automaton where there is one."""
