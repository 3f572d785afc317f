"""``cep explain``: every representation of a query has a name and can be shown as text, as a mermaid diagram, or as JSON.

Stages are a table: the selection and the engines add theirs (``asc``, ``code``) where they are assembled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import orjson

from app.config.durations import format_duration
from app.errors import CepError
from app.events.types import Kind
from app.query import expressions as e
from app.query.compile import Compiled
from app.query.explain.explain_runs import (
    asked_text,
    binding_names,
    name_of,
    opener_names,
    opens,
    pruning_text,
    routing_text,
    runs_lines,
    types_text,
    why_text,
)
from app.query.plan import ConstantTest, IntervalTest, Item, Plan, ReturnField, Temporal, Within
from app.query.sampling import sheds_for_its_bound, why_no_sample
from app.query.tree import tree as t
from app.query.tree.document import Located, Written
from app.query.tree.printer import print_expression, print_interval_test, print_opener, print_pattern, quote
from app.query.tree.timestamps import FIRST_MS, LAST_MS, format_timestamp

Renderer = Callable[[Compiled], str]
_PLAIN_KEY = re.compile(r"(?!(null|true|false|yes|no|on|off)$)[^\W\d][\w.-]*(\[\])?", re.IGNORECASE)
"""Keys that every reader of YAML takes for a text without quotes."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One representation: how it is rendered in each format."""

    text: Renderer
    mermaid: Renderer
    json: Renderer


def explain(query: Compiled, stage: str = "plan", form: str = "text", stages: Mapping[str, Stage] | None = None) -> str:
    """The query at a stage in a format.

    Raises:
        CepError: no such stage or format, or the query has errors before that stage.
    """
    table = stages if stages is not None else STAGES
    if stage not in table:
        raise CepError(f'there is no stage "{stage}"; the stages are {", ".join(table)}')
    if form not in ("text", "mermaid", "json"):
        raise CepError(f'there is no format "{form}"; the formats are text, mermaid, json')
    return str(getattr(table[stage], form)(query))


# --- syntax tree --------------------------------------------------------------------------------------------------------------


def _ast_text(query: Compiled) -> str:
    """The query again, as the parser reads it back to the same tree."""
    lines: list[str] = []
    _block(query.document.values, "", lines)
    return "\n".join(lines) + "\n"


def _block(values: Mapping[str, Any], indent: str, lines: list[str]) -> None:
    for key, value in values.items():
        if key == "tests":
            continue
        inner, name = value.value if isinstance(value, Located) else value, _key(key)
        if isinstance(inner, Mapping):
            lines.append(f"{indent}{name}:" if inner else f"{indent}{name}: {{}}")
            _block(inner, indent + "  ", lines)
        elif isinstance(inner, list):
            lines.append(f"{indent}{name}: [{', '.join(_yaml(one) for one in inner)}]")
        else:
            lines.append(f"{indent}{name}: {_yaml(inner)}")


def _key(name: str) -> str:
    """A key, quoted where YAML would read something else."""
    return name if _PLAIN_KEY.fullmatch(name) else orjson.dumps(name).decode()


_PRINTERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (t.Pattern, print_pattern),
    (t.Opener, print_opener),
    (t.IntervalTest, print_interval_test),
    (t.Expression, print_expression),
)


def _yaml(value: Any) -> str:
    if isinstance(value, Located):
        return _yaml(value.value)
    if isinstance(value, Written):
        text = next(printer(value.tree) for kind, printer in _PRINTERS if isinstance(value.tree, kind))
        return orjson.dumps(text).decode()
    if isinstance(value, Within):
        return format_duration(value.size) if value.unit == "ms" else f"{value.size} events"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return orjson.dumps(value).decode() if isinstance(value, str) else str(value)


def _ast_json(query: Compiled) -> str:
    values = {key: value for key, value in query.document.values.items() if key != "tests"}
    return _json(values)


def _ast_mermaid(query: Compiled) -> str:
    event = query.document.expression("event")
    lines = ["flowchart TD"]
    if event is not None:
        _tree_node(event.tree, lines, "n")
    return "\n".join(lines) + "\n"


def _tree_node(node: t.Pattern | t.Negation, lines: list[str], name: str) -> None:
    if isinstance(node, t.Primary | t.Negation):
        lines.append(f"  {name}[{_label(print_pattern(node))}]")
        return
    if isinstance(node, t.Group):
        title, parts = f"( ){print_pattern(node).rpartition(')')[2]}", (node.inner,)
    elif isinstance(node, t.Sequence):
        title, parts = "SEQ", node.items  # type: ignore[assignment]
    else:
        title, parts = ("AND" if isinstance(node, t.Conjunction) else "OR"), node.operands  # type: ignore[assignment]
    lines.append(f"  {name}({_label(title)})")
    for number, part in enumerate(parts):
        _tree_node(part, lines, f"{name}_{number}")
        lines.append(f"  {name} --> {name}_{number}")


def _label(text: str) -> str:
    return '"' + text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;") + '"'


# --- plan ---------------------------------------------------------------------------------------------------------------------


def _plan(query: Compiled) -> Plan:
    if query.plan is None:
        raise CepError(f'query "{query.name}" has errors and so no plan; cep validate shows them')
    return query.plan


def _plan_text(query: Compiled) -> str:
    plan = _plan(query)
    names = binding_names(plan)
    lines = [
        f"query {plan.name} version {plan.version}, fingerprint {plan.fingerprint}",
        f"reads {', '.join(plan.streams)}",
        f"partitioned by {routing_text(query, plan)}",
        f"evaluator {plan.evaluator}, {_evaluated(plan.temporal) if plan.temporal else f'within {_window(plan)}'}",
        *([f"  {why_text(query)}"] if plan.temporal is None else []),
        f"columns shipped: {', '.join(plan.columns) or 'none'}",
        *_unsampled(plan),
        *(runs_lines(plan, plan.runs) if plan.runs is not None else ()),
        "items:",
    ]
    if query.assumed:
        lines.insert(1, "no schemas are known: the kinds are guessed from the query and its tests")
    for item in plan.items:
        mark = "!" if item.negated else "?" if item.asked else " "
        lines.append(f"  {item.index} {mark}{name_of(item)}: {types_text(item)}{asked_text(item, names)}")
        lines += [f"      selection: {show_test(test)}" for test in item.tests]
        lines += [f"      selection: {show_either(item.either)}"] if item.either else []
        called = opener_names if opens(item) else names
        lines += [f"      engine:    {show(condition, called)}" for condition in item.local]
        if item.lacks:
            lines.append(f"      agrees with every {', '.join(item.lacks)} that it lacks")
    if plan.temporal is not None:
        lines += _coalescing(plan.temporal)
    elif pruning := pruning_text(plan):
        lines.append(f"selection (ASC) prunes by {pruning}")
    if plan.joins:
        lines.append("joins:")
        lines += [f"  {show(join.condition, names)}" + _deciding(join.negated_item, names) for join in plan.joins]
    lines.append("returns:")
    lines += [f"  {one.name}: {one.kind.value}{' list' if one.array else ''}{_value(one, plan, names)}" for one in plan.returns]
    return "\n".join(lines) + "\n"


def _unsampled(plan: Plan) -> list[str]:
    """Of a query that sheds."""
    why = why_no_sample(plan) if sheds_for_its_bound(plan) else None
    return [] if why is None else [f"no control sample tells its recall under shedding: {why}"]


def _value(field: ReturnField, plan: Plan, names: Mapping[int, str]) -> str:
    of_interval = plan.temporal is not None and field.name not in (*plan.temporal.key, *plan.temporal.select)
    return " of the interval" if of_interval else f" = {show(field.expression, names)}"


def _evaluated(temporal: Temporal) -> str:
    window = temporal.window
    if window.unit == "ms":
        return f"at every {format_duration(window.slide)} over the last {format_duration(window.range)}"
    return f"after every {window.slide} tuples over the last {window.range}"


def _coalescing(temporal: Temporal) -> list[str]:
    duration = "until the next one of its key" if temporal.duration_ms is None else f"for {format_duration(temporal.duration_ms)}"
    gap = f" or at most {format_duration(temporal.max_gap_ms)} apart" if temporal.max_gap_ms else ""
    lines = [
        f"coalesced by {', '.join((*temporal.key, *temporal.select))}: a tuple is valid {duration}; merged where touching{gap}",
        f"emitted: {'what is new or changed' if temporal.emit == 'changes' else 'everything'} at every evaluation",
    ]
    if temporal.valid is not None:
        lines.append(f"interval: {interval_test(temporal.valid)}")
    return lines


def interval_test(test: IntervalTest) -> str:
    """``valid:`` as text, for people."""
    if test.operator in ("OVERLAPS", "CONTAINS", "DURING"):
        return f"{test.operator} ({format_timestamp(test.start_ms)}, {format_timestamp(test.end_ms)})"
    return f"length {test.operator} {format_duration(test.length_ms)}"


def _deciding(negated: int | None, names: Mapping[int, str]) -> str:
    return "" if negated is None else f"   (decides whether {names[negated]} counts)"


def _window(plan: Plan) -> str:
    if plan.within is None:
        bounded = plan.runs is not None and (plan.runs.window is not None or plan.runs.max_gap_ms is not None)
        return "none" if bounded else "none: state grows without bound"
    return format_duration(plan.within.size) if plan.within.unit == "ms" else f"{plan.within.size} events"


def _plan_mermaid(query: Compiled) -> str:
    plan = _plan(query)
    names = binding_names(plan)
    lines = ["flowchart LR"]
    before: Item | None = None
    waiting: list[Item] = []
    for item in plan.items:
        label = f"{'¬ ' if item.negated else ''}{name_of(item)}: {'/'.join(item.types) or 'any type'}"
        tests = [*map(show_test, item.tests), *([show_either(item.either)] if item.either else [])] + [
            show(condition, opener_names if opens(item) else names) for condition in item.local
        ]
        shape = ("{{", "}}") if item.negated else ("[", "]")
        content = _label(label)[1:-1] + "".join("<br/>" + _label(test)[1:-1] for test in tests)
        lines.append(f'  i{item.index}{shape[0]}"{content}"{shape[1]}')
        if item.negated:
            waiting.append(item)
            continue
        if before is not None:
            lines.append(f"  i{before.index} --> i{item.index}")
        lines += [f"  i{absent.index} -.-> i{item.index}" for absent in waiting]
        if before is not None:
            lines += [f"  i{before.index} -.-> i{absent.index}" for absent in waiting]
        before, waiting = item, []
    if before is not None:
        lines += [f"  i{before.index} -.-> i{absent.index}" for absent in waiting]
    joins = [show(join.condition, names) for join in plan.joins] + [f"[{one}]" for one in plan.equivalence if plan.temporal is None]
    if plan.temporal is not None:
        told = [*_coalescing(plan.temporal), _evaluated(plan.temporal)]
        lines.append(f'  i0 --> coalesce["{"<br/>".join(_label(text)[1:-1] for text in told)}"]')
    if joins:
        lines.append(f'  joins>"{"<br/>".join(_label(join)[1:-1] for join in joins)}"]')
    return "\n".join(lines) + "\n"


def _plan_json(query: Compiled) -> str:
    return _json(_plan(query))


def show_test(test: ConstantTest) -> str:
    """A test of one attribute against constants as text, for people."""
    values = [_literal(e.Literal(test.kind, value)) for value in test.values]
    if test.operator in ("between", "not between"):
        return f"{test.attribute} {test.operator.upper()} {' AND '.join(values)}"
    if test.operator in ("in", "not in"):
        return f"{test.attribute} {test.operator.upper()} ({', '.join(values)})"
    return " ".join([test.attribute, test.operator.upper(), *values])


def show_either(either: Iterable[Iterable[ConstantTest]]) -> str:
    """A disjunction of tests as text."""
    return " OR ".join(" AND ".join(map(show_test, one)) for one in either)


def _literal(literal: e.Literal) -> str:
    value = literal.value
    if value is None:
        return "null"
    if literal.kind is Kind.TIME and isinstance(value, int) and FIRST_MS <= value <= LAST_MS:
        return f"TIMESTAMP {quote(format_timestamp(value))}"
    if literal.kind is Kind.DURATION and isinstance(value, int | float):
        return f"-{format_duration(-value)}" if value < 0 else format_duration(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(value) if isinstance(value, str) else repr(value)


def show(node: e.Expression, names: Mapping[int, str]) -> str:
    """A resolved expression as text, for people; in parentheses wherever there could be doubt."""
    return _SHOWN[type(node)](node, names)


def _inner(node: e.Expression, names: Mapping[int, str]) -> str:
    text = show(node, names)
    return (
        f"({text})" if isinstance(node, e.Arithmetic | e.And | e.Or | e.Not | e.Comparison | e.In | e.Between | e.IsNull | e.Like) else text
    )


def _attribute(node: e.AttributeOf, names: Mapping[int, str]) -> str:
    index = ""
    if node.index is not None:
        word = {"number": str(node.index.number), "running": "i"}.get(node.index.anchor, node.index.anchor)
        index = f"[{word}{f'-{node.index.back}' if node.index.back else ''}]"
    return f"{names[node.item]}{index}.{node.attribute}"


def _aggregate(node: e.Aggregate, names: Mapping[int, str]) -> str:
    running = f"[..i{f'-{node.back}' if node.back else ''}]" if node.running else ""
    return f"{node.function}({names[node.item]}{running}{f'.{node.attribute}' if node.attribute else ''})"


def _negation(negated: bool) -> str:  # noqa: FBT001
    return " NOT" if negated else ""


_SHOWN: dict[type, Callable[[Any, Mapping[int, str]], str]] = {
    e.Literal: lambda node, _: _literal(node),
    e.AttributeOf: _attribute,
    e.Aggregate: _aggregate,
    e.Arithmetic: lambda node, names: f"{_inner(node.left, names)} {node.operator} {_inner(node.right, names)}",
    e.Negative: lambda node, names: f"-{_inner(node.operand, names)}",
    e.Call: lambda node, names: f"{node.function}({', '.join(show(one, names) for one in node.arguments)})",
    e.Comparison: lambda node, names: f"{show(node.left, names)} {node.operator} {show(node.right, names)}",
    e.In: lambda node, names: (
        f"{_inner(node.operand, names)}{_negation(node.negated)} IN ({', '.join(_literal(one) for one in node.values)})"
    ),
    e.Between: lambda node, names: (
        f"{_inner(node.operand, names)}{_negation(node.negated)} BETWEEN {_inner(node.low, names)} AND {_inner(node.high, names)}"
    ),
    e.IsNull: lambda node, names: f"{_inner(node.operand, names)} IS{_negation(node.negated)} NULL",
    e.Like: lambda node, names: f"{_inner(node.operand, names)}{_negation(node.negated)} LIKE {quote(node.pattern)}",
    e.Not: lambda node, names: f"NOT {_inner(node.operand, names)}",
    e.And: lambda node, names: " AND ".join(_inner(one, names) for one in node.operands),
    e.Or: lambda node, names: " OR ".join(_inner(one, names) for one in node.operands),
}


# --- JSON ---------------------------------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    return orjson.dumps(_plain(value), option=orjson.OPT_INDENT_2).decode() + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Located):
        return _plain(value.value)
    if isinstance(value, Written):
        return _plain(value.tree)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if is_dataclass(value) and not isinstance(value, type):
        named = {
            one.name: _plain(getattr(value, one.name))
            for one in fields(value)
            if one.name not in ("span", "node") and not one.name.endswith("_span")
        }
        return {"node": type(value).__name__, **named}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


STAGES: dict[str, Stage] = {
    "ast": Stage(_ast_text, _ast_mermaid, _ast_json),
    "plan": Stage(_plan_text, _plan_mermaid, _plan_json),
}
