"""Compiles resolved expressions to programs of the machine, and lays out the cells they read.

Whatever a join says about *one* event alone (``b.price * 1.05``, ``lower(a.name)``, ``a.kind LIKE 'x%'``) is computed once per event, before
sequence construction, into a derived cell; what is left for the inner loop is mostly ``cell op cell``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from app.cep.cells.arrays import CELL_TIME, CELL_TYPE, FIRST_ATTRIBUTE, Programs
from app.cep.cells.texts import TextTable
from app.cep.predicates import opcodes as op
from app.events.types import Kind
from app.query.expressions import (
    NODES,
    Aggregate,
    And,
    Arithmetic,
    AttributeOf,
    Between,
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    mentioned_items,
    rebuilt,
)
from app.query.text.like import like_expression

TEXT_FUNCTIONS = ("lower", "upper", "length")
OCTETS = "octets"
"""What ``length`` counts of bytes: their characters are nobody's business."""
NO_ITEM = -1
"""Item of an attribute in the key of a derived cell: the same expression of two items is one cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the event bound to an item: what is left of an attribute or of a derived expression."""

    kind: Kind
    item: int
    column: int


@dataclass(frozen=True, slots=True)
class TextCell:
    """A cell computed from a text cell, once per distinct text: ``lower upper length``, `OCTETS`, or ``like`` (0 or 1) with a pattern."""

    column: int
    source: int
    function: str
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ProgramCell:
    """A cell computed by a program from the other cells of the same event."""

    column: int
    start: int
    stop: int


def children(expression: Expression) -> Iterator[Expression]:
    """The expressions directly inside."""
    for field in fields(expression):
        inner = getattr(expression, field.name)
        for child in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(child, NODES):
                yield child


def constants_of(expression: Expression) -> Iterator[Constant]:
    """All constants in an expression."""
    if isinstance(expression, Literal):
        yield expression.value
    for child in children(expression):
        yield from constants_of(child)


def texts_in(expressions: Iterable[Expression]) -> list[bytes]:
    """All text constants of some expressions, and what functions make of them, sorted: the compiler gives each a number that must stay."""
    whole = list(expressions)
    constants = [value for expression in whole for value in constants_of(expression)]
    constants += [value for expression in whole for value in constants_of(_folded(expression))]
    return sorted({value.encode() if isinstance(value, str) else value for value in constants if isinstance(value, str | bytes)})


def _folded(expression: Expression) -> Any:
    """The expression with functions of constant texts replaced by their values."""
    if isinstance(expression, Call) and expression.function in TEXT_FUNCTIONS:
        operand = _folded(expression.arguments[0])
        if isinstance(operand, Literal):
            return _of_text(expression, operand)
    return rebuilt(expression, _folded) if not isinstance(expression, Literal) else expression


def _of_text(call: Call, operand: Literal) -> Literal:
    """What a function of texts makes of a constant."""
    return Literal(call.kind, getattr(str, call.function, len)(str(operand.value)))


def _of_no_item(expression: Expression) -> Any:
    """The expression with its items replaced by `NO_ITEM`."""
    return replace(expression, item=NO_ITEM) if isinstance(expression, AttributeOf) else rebuilt(expression, _of_no_item)


def like_matches(pattern: str, text: str) -> bool:
    """SQL's LIKE: ``%`` any characters, ``_`` exactly one.

    >>> like_matches("a%_", "abc"), like_matches("a_", "abc")
    (True, False)
    """
    return re.fullmatch(like_expression(pattern), text, re.DOTALL) is not None


class Compiler:
    """Programs and derived cells of one plan.

    Args:
        attributes: attribute → cell.
        kinds: kind of each attribute's column, as far as batches have shown it; otherwise the expression's word counts.
        texts: where text constants are numbered (they must be pinned there).
    """

    def __init__(self, attributes: Mapping[str, int], kinds: Mapping[str, Kind], texts: TextTable) -> None:
        self.attributes = attributes
        self.kinds = kinds
        self._texts = texts
        self._code: list[tuple[int, int, int, int]] = []
        self._constants: list[tuple[int, int]] = []
        self._derived: dict[object, tuple[int, Kind]] = {}
        self.arguments: list[tuple[int, int]] = []
        """(number, place among the constants) of every argument compiled since this was cleared: see `app.cep.runs.automaton.predicates.Argument`."""
        self.derived: list[TextCell | ProgramCell] = []
        """In order of computation."""
        self.width = FIRST_ATTRIBUTE + len(attributes)

    def programs(self) -> Programs:
        """The arrays."""
        code = np.array(self._code, np.int64).reshape(-1, 4)
        return Programs(code, np.array(self._constants, np.int64).reshape(-1, 2))

    def compile(self, expression: Expression | Cell, kind: Kind | None = None) -> tuple[int, int]:
        """A program for the expression, made a float at the end if ``kind`` says so; returns its first and last-plus-one instruction."""
        prepared = self._with_text_cells(expression)
        start = len(self._code)
        self._emit(prepared)
        if kind is Kind.FLOAT:
            self._code.append((op.OP_TO_FLOAT, 0, 0, 0))
        return start, len(self._code)

    def hoisted(self, expression: Expression) -> Any:
        """The expression with everything that speaks of one event alone replaced by derived cells."""
        if isinstance(expression, Literal):
            return expression
        if isinstance(expression, AttributeOf):
            return self._cell(expression)
        if len(mentioned_items(expression)) == 1:
            return self._derive(expression)
        return rebuilt(expression, self.hoisted)

    def cell_of(self, expression: Expression | Cell) -> Cell | None:
        """The cell, if the expression is nothing but an attribute."""
        if isinstance(expression, AttributeOf):
            return self._cell(expression)
        return expression if isinstance(expression, Cell) else None

    def column_of(self, attribute: str) -> int:
        """The cell of an attribute."""
        if attribute in ("time", "type"):
            return CELL_TIME if attribute == "time" else CELL_TYPE
        return self.attributes[attribute]

    def _cell(self, attribute: AttributeOf) -> Cell:
        if attribute.attribute == "time":
            return Cell(Kind.TIME, attribute.item, CELL_TIME)
        if attribute.attribute == "type":
            return Cell(Kind.STRING, attribute.item, CELL_TYPE)
        kind = self.kinds.get(attribute.attribute, attribute.kind)
        return Cell(kind, attribute.item, self.attributes[attribute.attribute])

    def _derive(self, expression: Expression) -> Cell:
        (item,) = mentioned_items(expression)
        key = _of_no_item(expression)
        if key not in self._derived:
            prepared = self._with_text_cells(expression)
            if isinstance(prepared, Cell):
                self._derived[key] = (prepared.column, prepared.kind)
            else:
                start = len(self._code)
                self._emit(prepared)
                kind = Kind.BOOLEAN if isinstance(expression, Condition) else expression.kind
                if kind is Kind.FLOAT:
                    self._code.append((op.OP_TO_FLOAT, 0, 0, 0))
                self.derived.append(ProgramCell(self._new_column(), start, len(self._code)))
                self._derived[key] = (self.derived[-1].column, kind)
        column, kind = self._derived[key]
        return Cell(kind, item, column)

    def _new_column(self) -> int:
        self.width += 1
        return self.width - 1

    def _with_text_cells(self, expression: Any) -> Any:
        """LIKE, lower, upper and length replaced by cells that are computed per distinct text; constants folded."""
        if isinstance(expression, Cell | Literal):
            return expression
        if isinstance(expression, Like):
            operand = self._with_text_cells(expression.operand)
            if isinstance(operand, Literal):
                matches = like_matches(expression.pattern, str(operand.value))
                return Comparison("=", Literal(Kind.BOOLEAN, matches), Literal(Kind.BOOLEAN, not expression.negated))
            cell = self._text_cell(operand, "like", expression.pattern, Kind.BOOLEAN)
            return Comparison("=", cell, Literal(Kind.BOOLEAN, not expression.negated))
        if isinstance(expression, Call) and expression.function in TEXT_FUNCTIONS:
            operand = self._with_text_cells(expression.arguments[0])
            if isinstance(operand, Literal):
                return _of_text(expression, operand)
            return self._text_cell(operand, expression.function, None, expression.kind)
        return rebuilt(expression, self._with_text_cells)

    def _text_cell(self, operand: Expression | Cell, function: str, pattern: str | None, kind: Kind) -> Any:
        source = self.cell_of(operand)
        if source is None:
            raise ValueError(f"{function} of something else than an attribute or a text function of one")
        if function == "length" and source.kind is Kind.BYTES:
            function = OCTETS
        key = (function, pattern, source.column)
        if key not in self._derived:
            self.derived.append(TextCell(self._new_column(), source.column, function, pattern))
            self._derived[key] = (self.derived[-1].column, kind)
        return Cell(kind, source.item, self._derived[key][0])

    def _constant(self, literal: Literal) -> tuple[int, int]:
        value = literal.value
        if value is None:
            return op.NULL, 0
        if isinstance(value, str | bytes):
            return op.INTEGER, self._texts.number(value.encode() if isinstance(value, str) else value)
        if isinstance(value, int) and op.MIN_INTEGER <= value <= op.MAX_INTEGER and literal.kind is not Kind.FLOAT:
            return op.INTEGER, int(value)
        return op.FLOAT, int(np.array(float(value)).view(np.int64))

    def _emit(self, expression: Expression | Cell) -> None:
        match expression:
            case Cell(kind, item, column):
                self._code.append((op.OP_LOAD, item, column, op.FLOAT if kind is Kind.FLOAT else op.INTEGER))
            case AttributeOf():
                self._emit(self._cell(expression))
            case Literal():
                if getattr(expression, "filled_in", False):
                    self.arguments.append((int(expression.value or 0), len(self._constants)))
                self._code.append((op.OP_CONSTANT, len(self._constants), 0, 0))
                self._constants.append(self._constant(expression))
            case In(operand, values, negated):
                self._emit(operand)
                self._code.append((op.OP_IN, len(self._constants), len(values), int(negated)))
                self._constants.extend(self._constant(value) for value in values)
            case _:
                inner = list(children_or_cells(expression))
                for child in inner:
                    self._emit(child)
                self._code.append(_instruction(expression, inner))


def children_or_cells(expression: Expression) -> Iterator[Expression | Cell]:
    """The expressions and cells directly inside."""
    for field in fields(expression):
        inner = getattr(expression, field.name)
        for child in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(child, (*NODES, Cell)):
                yield child


def _instruction(expression: Expression, operands: list[Expression | Cell]) -> tuple[int, int, int, int]:
    """The instruction of a node whose operands stand on the stack."""
    textual = any(getattr(operand, "kind", Kind.INTEGER).textual for operand in operands)
    match expression:
        case Arithmetic(operator=operator):
            return op.ARITHMETIC[operator], 0, 2, 0
        case Negative():
            return op.OP_NEGATIVE, 0, 1, 0
        case Call(function=function):
            return op.FUNCTIONS[function], 0, len(operands), 0
        case Comparison(operator=comparison):
            return op.OP_COMPARE, op.OPERATORS[comparison], int(textual), 0
        case Between(negated=negated):
            return op.OP_BETWEEN, 0, int(textual), int(negated)
        case IsNull(negated=negated):
            return op.OP_IS_NULL, 0, 0, int(negated)
        case Not():
            return op.OP_NOT, 0, 1, 0
        case And():
            return op.OP_AND, 0, len(operands), 0
        case Or():
            return op.OP_OR, 0, len(operands), 0
    raise ValueError(f"the engine has no instruction for {type(expression).__name__}")


def unsupported(expression: Expression) -> list[str]:
    """What in an expression this engine cannot evaluate, in plain words."""
    found = []
    if isinstance(expression, Aggregate):
        found.append(f"the aggregate {expression.function}() needs closures, which this engine does not run yet")
    if isinstance(expression, AttributeOf) and expression.index is not None:
        found.append(f"an index on {expression.attribute!r} needs closures, which this engine does not run yet")
    if isinstance(expression, Call) and expression.function not in (*TEXT_FUNCTIONS, *op.FUNCTIONS):
        found.append(f"the function {expression.function}() is unknown to this engine")
    if (isinstance(expression, Call) and expression.function in TEXT_FUNCTIONS) or isinstance(expression, Like):
        inner = expression.arguments[0] if isinstance(expression, Call) else expression.operand
        if not (isinstance(inner, AttributeOf | Literal) or (isinstance(inner, Call) and inner.function in ("lower", "upper"))):
            found.append("LIKE, lower, upper and length work on an attribute, a constant, or lower and upper of one")
    for child in children(expression):
        found += unsupported(child)
    return found


def comparison_mode(left: Cell, right: Cell, operator: str) -> int:
    """How two cells are compared where both are plainly present; MODE_PROGRAM: by the machine only."""
    if left.kind is Kind.FLOAT and right.kind is Kind.FLOAT:
        return op.MODE_FLOATS
    if Kind.FLOAT in (left.kind, right.kind) or (left.kind.textual and operator not in ("=", "!=")):
        return op.MODE_PROGRAM
    return op.MODE_INTEGERS
