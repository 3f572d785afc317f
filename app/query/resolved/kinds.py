"""Which kinds of values go together, and what comes of them (queries/README.md, *Conditions*)."""

from __future__ import annotations

from app.events.types import Kind
from app.query.resolved.vocabulary import NUMERIC, Vocabulary

A_KIND = {
    Kind.BOOLEAN: "a boolean", Kind.INTEGER: "an integer", Kind.FLOAT: "a float", Kind.STRING: "a text",
    Kind.BYTES: "bytes", Kind.TIME: "a time", Kind.DURATION: "a duration",
}  # fmt: skip


def comparable(left: Kind, right: Kind) -> bool:
    """Whether values of these kinds can be compared."""
    return left is right or (left in NUMERIC and right in NUMERIC)


def clash(attribute: str, vocabulary: Vocabulary) -> tuple[str, str]:
    """What to say of an attribute whose column has no one kind, and what to do."""
    listed = " and ".join(f"{A_KIND[kind]} in {owner}" for kind, owner in vocabulary.kinds(attribute).items())
    return f'attribute "{attribute}" is {listed}', "give them different names in the stream's configuration"


def kind_hint(left: Kind, right: Kind) -> str | None:
    """What to write instead where two kinds do not go together."""
    kinds = {left, right}
    if Kind.DURATION in kinds and kinds & set(NUMERIC):
        return "durations have a unit: 5 s, 3 minutes"
    if Kind.TIME in kinds and kinds & set(NUMERIC):
        return "a time is written TIMESTAMP '2026-01-31T12:00:00Z'"
    if Kind.TIME in kinds and Kind.DURATION in kinds:
        return "time - time is a duration"
    if Kind.BOOLEAN in kinds:
        return "booleans are compared with true or false, without quotes"
    if Kind.STRING in kinds and kinds & set(NUMERIC):
        return "texts are quoted, numbers are not"
    return None


def arithmetic_kind(operator: str, left: Kind, right: Kind) -> Kind | None:
    """The kind of ``left operator right``; None where it has no meaning."""
    if left in NUMERIC and right in NUMERIC:
        return Kind.FLOAT if operator == "/" or Kind.FLOAT in (left, right) else Kind.INTEGER
    if left is Kind.DURATION and right is Kind.DURATION:
        return {"+": Kind.DURATION, "-": Kind.DURATION, "%": Kind.DURATION, "/": Kind.FLOAT}.get(operator)
    table = {
        ("-", Kind.TIME, Kind.TIME): Kind.DURATION,
        ("+", Kind.TIME, Kind.DURATION): Kind.TIME,
        ("-", Kind.TIME, Kind.DURATION): Kind.TIME,
        ("+", Kind.DURATION, Kind.TIME): Kind.TIME,
    }
    if (operator, left, right) in table:
        return table[operator, left, right]
    if left is Kind.DURATION and right in NUMERIC and operator in "*/":
        return Kind.DURATION
    return Kind.DURATION if left in NUMERIC and right is Kind.DURATION and operator == "*" else None


def arithmetic_hint(left: Kind, right: Kind) -> str | None:
    """What to write instead of arithmetic that has no meaning."""
    return kind_hint(left, right) or "arithmetic takes numbers, durations, and times minus times"


def aggregable(name: str, kind: Kind) -> bool:
    """Whether an aggregate takes attributes of a kind."""
    if name in ("sum", "avg"):
        return kind in (*NUMERIC, Kind.DURATION)
    if name in ("min", "max"):
        return kind in (*NUMERIC, Kind.DURATION, Kind.TIME)
    return name in ("first", "last") or kind not in (Kind.BOOLEAN, Kind.BYTES)
