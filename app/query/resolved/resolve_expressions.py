"""Names and kinds in expressions (queries/README.md, *Conditions*): syntax tree → resolved expressions.

A part that is wrong becomes one finding and then agrees with everything, so that one mistake is told once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from app.errors import Finding
from app.events.types import Kind
from app.query import expressions as e
from app.query.resolved.folding import fold
from app.query.resolved.kinds import A_KIND, aggregable, arithmetic_hint, arithmetic_kind, clash, comparable, kind_hint
from app.query.resolved.resolved import Binding
from app.query.resolved.typed import AGGREGATES, ARGUMENTS, BAD, FUNCTIONS, Typed, beside_timestamps, of_kind
from app.query.resolved.vocabulary import BUILT_IN, NUMERIC, Vocabulary
from app.query.tree import tree as t
from app.query.tree.document import Written
from app.query.tree.printer import print_index
from app.query.tree.timestamps import parse_timestamp
from app.similar import closest, did_you_mean

Clause = OneOf["where", "return", "until", "tuple"]


@dataclass(slots=True)
class Checker:
    """Resolves the parts of one written expression.

    ``asked``: under UNTIL, the variable whose event is asked. ``visible``: variables that may be mentioned; None for all.
    """

    written: Written
    vocabulary: Vocabulary
    bindings: Mapping[str, Binding]
    findings: list[Finding]
    clause: Clause = "where"
    asked: str | None = None
    visible: frozenset[str] | None = None
    tuple_types: tuple[str, ...] = ()
    mentioned: set[int] = field(default_factory=set)
    within_or: bool = False

    def report(self, message: str, span: t.Span, hint: str | None = None) -> None:
        """One finding at a part of the expression."""
        self.findings.append(Finding(message, self.written.location(span), hint))

    # --- conditions --------------------------------------------------------------------------------------------------------

    def condition(self, node: t.Expression) -> e.Expression:
        """A resolved condition."""
        resolvers: dict[type, Callable[..., e.Expression]] = {
            t.Comparison: self._comparison,
            t.In: self._in,
            t.Between: self._between,
            t.IsNull: lambda n: e.IsNull(self.value(n.operand).value, n.negated),
            t.Like: self._like,
            t.Not: lambda n: e.Not(self.condition(n.operand)),
            t.And: lambda n: e.And(tuple(self.condition(o) for o in n.operands)),
            t.Or: self._either,
            t.Equivalence: self._misplaced,
        }
        resolver = resolvers.get(type(node))
        return resolver(node) if resolver is not None else self.value(node).value

    def _either(self, node: t.Or) -> e.Expression:
        outside, self.within_or = self.within_or, True
        operands, self.within_or = tuple(map(self.condition, node.operands)), outside
        return e.Or(operands)

    def _misplaced(self, node: t.Equivalence) -> e.Expression:
        where = "of a pattern" if self.clause in ("until", "tuple") else "between the outermost ANDs"
        hint = f"write key: [{node.path}]" if self.clause == "tuple" else f"here compare attributes: a.{node.path} = b.{node.path}"
        if self.clause == "where" and self.within_or:
            hint = f"AND binds closer than OR: write [{node.path}] AND (… OR …), or compare attributes: a.{node.path} = b.{node.path}"
        self.report(f"an equivalence test stands only in where: {where}", node.span, hint)
        return BAD.value

    def _comparison(self, node: t.Comparison) -> e.Expression:
        left, right = self._agree([self.value(node.left), self.value(node.right)], node.span, "compared with")
        if node.operator not in ("=", "!=") and Kind.BOOLEAN in (left.kind, right.kind):
            self.report(f'booleans have no order for "{node.operator}"', node.span, "compare them by = or !=")
        return e.Comparison(node.operator, left.value, right.value)

    def _in(self, node: t.In) -> e.Expression:
        operand = self.value(node.operand)
        values: list[e.Literal] = []
        for constant in node.values:
            operand, typed = self._agree([operand, self.value(constant)], constant.span, "compared with")
            if isinstance(typed.value, e.Literal):
                values.append(typed.value)
        return e.In(operand.value, tuple(values), node.negated)

    def _between(self, node: t.Between) -> e.Expression:
        operand, low, high = self._agree(
            [self.value(node.operand), self.value(node.low), self.value(node.high)], node.span, "compared with"
        )
        if Kind.BOOLEAN in (operand.kind, low.kind, high.kind):
            self.report("booleans have no order for BETWEEN", node.span, "compare them by = or !=")
        return e.Between(operand.value, low.value, high.value, node.negated)

    def _like(self, node: t.Like) -> e.Expression:
        operand = self.value(node.operand)
        if operand.kind is None:
            operand = of_kind(operand, Kind.STRING)
        elif operand.kind is not Kind.STRING:
            self.report(f"LIKE needs a text, this is {A_KIND[operand.kind]}", node.operand.span, "compare with = or BETWEEN")
        return e.Like(operand.value, node.pattern, node.negated)

    def _agree(self, typed: list[Typed], span: t.Span, verb: str) -> list[Typed]:
        """Makes texts beside times timestamps and gives unknown kinds the others' kind; reports kinds that do not go together."""
        kinds = {one.kind for one in typed} - {None}
        if Kind.TIME in kinds:
            typed = [self._as_time(one, span) if one.constant_text is not None else one for one in typed]
        elif Kind.BYTES in kinds:
            typed = [self._as_bytes(one, span) if one.constant_text is not None else one for one in typed]
        known = list(dict.fromkeys(one.kind for one in typed if one.kind is not None))
        if not known:
            return typed
        first = next((kind for kind in known if kind is not known[0] and not comparable(known[0], kind)), None)
        if first is not None:
            self.report(f"{A_KIND[known[0]]} is {verb} {A_KIND[first]}", span, kind_hint(known[0], first))
        return [of_kind(one, known[0]) if one.kind is None else one for one in typed]

    def _as_time(self, typed: Typed, span: t.Span) -> Typed:
        text = typed.constant_text or ""
        try:
            return Typed(e.Literal(Kind.TIME, parse_timestamp(text)), Kind.TIME)
        except ValueError:
            self.report(f"'{text}' is no timestamp", span, "write '2026-01-31T12:00:00Z'; without zone it is UTC")
            return Typed(e.Literal(Kind.TIME, 0), Kind.TIME)

    def _as_bytes(self, typed: Typed, span: t.Span) -> Typed:
        text = typed.constant_text or ""
        try:
            return Typed(e.Literal(Kind.BYTES, text.encode("latin-1")), Kind.BYTES)
        except UnicodeEncodeError:
            self.report(f"'{text}' is no byte string", span, "a byte is a character up to U+00FF, as in Avro's JSON")
            return Typed(e.Literal(Kind.BYTES, b""), Kind.BYTES)

    # --- values ------------------------------------------------------------------------------------------------------------

    def value(self, node: t.Expression) -> Typed:
        """A resolved value with its kind."""
        resolvers: dict[type, Callable[..., Typed]] = {
            t.Constant: self._constant,
            t.Reference: self._reference,
            t.Call: self._call,
            t.Negative: self._negative,
            t.Arithmetic: self._arithmetic,
        }
        resolver = resolvers.get(type(node))
        return resolver(node) if resolver is not None else BAD

    def _constant(self, node: t.Constant) -> Typed:
        kind = {"timestamp": Kind.TIME}.get(node.kind) or Kind(node.kind)
        return Typed(e.Literal(kind, node.value), kind, constant_text=str(node.value) if kind is Kind.STRING else None)

    def _scalar(self, node: t.Expression) -> Typed:
        """A value that is part of a larger one, and so no array."""
        typed = self.value(node)
        if typed.array:
            self.report("a closure's attribute is a list here", node.span, "take one element, x[last].a, or an aggregate, avg(x.a)")
            return BAD
        return typed

    def _negative(self, node: t.Negative) -> Typed:
        operand = self._scalar(node.operand)
        if operand.kind not in (None, *NUMERIC, Kind.DURATION):
            self.report(f"minus before {A_KIND[operand.kind]}", node.span, "numbers and durations have a sign")
            return BAD
        return Typed(fold(e.Negative(operand.kind or Kind.INTEGER, operand.value)), operand.kind)

    def _arithmetic(self, node: t.Arithmetic) -> Typed:
        left, right = self._scalar(node.left), self._scalar(node.right)
        if left.kind is Kind.TIME and node.operator == "-" and right.constant_text is not None:
            right = self._as_time(right, node.right.span)
        elif right.kind is Kind.TIME and node.operator == "-" and left.constant_text is not None:
            left = self._as_time(left, node.left.span)
        if left.kind is None or right.kind is None:
            # of an unknown kind only types that never occur are: nothing to report
            return Typed(e.Arithmetic(Kind.FLOAT, node.operator, left.value, right.value), None)
        kind = arithmetic_kind(node.operator, left.kind, right.kind)
        if kind is None:
            self.report(
                f"{A_KIND[left.kind]} {node.operator} {A_KIND[right.kind]} has no meaning",
                node.span,
                arithmetic_hint(left.kind, right.kind),
            )
            return BAD
        return Typed(fold(e.Arithmetic(kind, node.operator, left.value, right.value)), kind)

    def _call(self, node: t.Call) -> Typed:
        name, count = node.function, len(node.arguments)
        lone_reference = count == 1 and isinstance(node.arguments[0], t.Reference)
        if name in AGGREGATES and (name not in FUNCTIONS or count < 2):
            if self.clause == "tuple":
                self.report("a temporal query has no closures to aggregate", node.span, "select: and valid: speak of tuples that last")
                return BAD
            if not lone_reference:
                self.report(
                    f"{name}() takes one closure's attribute", node.span, f"write {name}(x.a)" if name != "count" else "write count(x)"
                )
                return BAD
            return self._aggregate(node, node.arguments[0])  # type: ignore[arg-type]
        if name not in FUNCTIONS:
            self.report(f'unknown function "{name}"', node.name_span, did_you_mean(name, [*FUNCTIONS, *AGGREGATES], limit=20))
            return BAD
        arguments = [self._scalar(argument) for argument in node.arguments]
        wanted = FUNCTIONS[name]
        if (count < wanted) if name in ("min", "max") else (count != wanted):
            self.report(
                f"{name}() takes {'at least ' if name in ('min', 'max') else ''}{wanted} argument{'s' * (wanted > 1)}, not {count}",
                node.span,
                f"write {name}({ARGUMENTS[wanted] if name != 'haversine' else 'lat1, lon1, lat2, lon2'})",
            )
            return BAD
        return self._function(node, arguments)

    def _function(self, node: t.Call, arguments: list[Typed]) -> Typed:
        name = node.function
        accepted: tuple[Kind, ...] = (*NUMERIC, Kind.DURATION) if name in ("abs", "min", "max") else NUMERIC
        if name in ("min", "max"):
            accepted = (*accepted, Kind.TIME)
            arguments = self._agree(beside_timestamps(arguments), node.span, "compared with")
        if name in ("length", "lower", "upper"):
            accepted = (Kind.STRING, Kind.BYTES) if name == "length" else (Kind.STRING,)
        for argument, written in zip(arguments, node.arguments, strict=True):
            if argument.kind is not None and argument.kind not in accepted:
                self.report(f"{name}() of {A_KIND[argument.kind]}", written.span, f"it takes {A_KIND[accepted[0]]}")
                return BAD
        kinds = [argument.kind for argument in arguments]
        if name in ("distance", "haversine"):
            kind: Kind | None = Kind.FLOAT
        elif name == "length":
            kind = Kind.INTEGER
        else:
            kind = Kind.FLOAT if set(kinds) == set(NUMERIC) else kinds[0]
        return Typed(e.Call(kind or Kind.INTEGER, name, tuple(a.value for a in arguments)), kind)

    # --- references --------------------------------------------------------------------------------------------------------

    def _binding(self, node: t.Reference) -> Binding | None:
        binding = self.bindings.get(node.variable)
        if binding is None:
            hint = did_you_mean(node.variable, self.bindings, "the pattern") if self.bindings else "name an item: A a"
            if self.vocabulary.event_type(node.variable) is not None and node.variable in self.vocabulary.names:
                hint = f"{node.variable} is an event type; give the item a variable: {node.variable} x"
            elif self.bindings and not node.path and closest(node.variable, self.bindings) is None:
                hint = f"an attribute is written with its variable, {next(iter(self.bindings))}.{node.variable}; a text in quotes, '{node.variable}'; {hint}"
            self.report(f'unknown variable "{node.variable}"', node.variable_span, hint)
            return None
        if self.visible is not None and node.variable not in self.visible:
            self.report(
                f'"{node.variable}" is not bound before', node.variable_span, "UNTIL may use its own variable and those of the items before"
            )
            return None
        if self.clause == "return" and binding.negated:
            self.report(
                f'"{node.variable}" is negated: a match has no such event', node.variable_span, "return attributes of the other variables"
            )
            return None
        self.mentioned.add(binding.index)
        return binding

    def _reference(self, node: t.Reference) -> Typed:
        if self.clause == "tuple":
            return self._bare(node)
        binding = self._binding(node)
        if binding is None:
            return BAD
        if not node.path:
            self.report(f'"{node.variable}" is an event, not a value', node.span, f"write {node.variable}.attribute")
            return BAD
        kind, known = self._kind_of(binding.types, node.path, node.path_span)
        if not known:
            return BAD
        index, array = self._index(binding, node)
        return Typed(e.AttributeOf(kind or Kind.INTEGER, binding.index, node.path, index), kind, array)

    def _index(self, binding: Binding, node: t.Reference) -> tuple[e.Index | None, bool]:
        def written(place: str = "") -> str:
            return t.attribute_of(f"{node.variable}{place}", node.path)

        index = node.index
        if index is not None and (binding.negated or not binding.closure):
            self.report(f'"{node.variable}" binds one event, no list', index.span, f"write {written()}")
            return None, False
        if not binding.closure:
            return None, False
        if index is None:
            if self.clause == "return":
                return None, True
            return (None, False) if node.variable == self.asked else (e.Index("running"), False)
        if index.anchor == "upto":
            self.report("[..i] stands only inside an aggregate", index.span, f"write sum({written('[..i]')}), or {written('[i]')}")
        elif index.anchor == "number" and index.number == 0:
            self.report(
                "elements of a closure are counted from 1", index.span, f"the first is {node.variable}[1] or {node.variable}[first]"
            )
        elif index.anchor == "running" and self.clause == "return":
            self.report("i has no value in return:", index.span, f"write {written()} for all elements, or {written('[last]')}")
        elif index.anchor == "last" and node.variable == self.asked:
            self.report("the last element is not known under UNTIL", index.span, f"write {written('[i-1]')} for the one before")
        else:
            return e.Index(index.anchor, index.number, index.back), False
        return e.Index("first"), False

    def _aggregate(self, node: t.Call, reference: t.Reference) -> Typed:
        binding = self._binding(reference)
        if binding is None:
            return BAD
        name = node.function
        if binding.negated:
            self.report(f'"{reference.variable}" is negated: there is nothing to aggregate', node.span)
            return BAD
        running = reference.index is not None and reference.index.anchor == "upto"
        whole = t.attribute_of(reference.variable, reference.path or "attribute")
        if reference.index is not None and not running:
            self.report(
                "an aggregate takes all elements",
                reference.index.span,
                f"write {name}({reference.variable}.a), or {name}({reference.variable}[..i].a)",
            )
            return BAD
        if running and self.clause == "return":
            self.report("a running aggregate has no value in return:", reference.span, f"write {name}({whole})")
            return BAD
        if not running and reference.variable == self.asked:
            self.report("the finished closure is not known under UNTIL", reference.span, f"write {name}({reference.variable}[..i].a)")
            return BAD
        if not binding.closure and (name != "count" or running):
            self.report(f'"{reference.variable}" is no closure', reference.span, f"write {whole}")
            return BAD
        back = reference.index.back if reference.index is not None else 0
        if name == "count":
            if reference.path:
                index = "" if reference.index is None else print_index(reference.index)
                self.report("count() counts events", reference.path_span, f"write count({reference.variable}{index})")
                return BAD
            return Typed(e.Aggregate(Kind.INTEGER, "count", binding.index, None, running, back), Kind.INTEGER)
        if not reference.path:
            self.report(f"{name}() needs an attribute", reference.span, f"write {name}({reference.variable}.a)")
            return BAD
        kind, known = self._kind_of(binding.types, reference.path, reference.path_span)
        if not known:
            return BAD
        if kind is not None and not aggregable(name, kind):
            self.report(
                f"{name}() of {A_KIND[kind]}",
                node.span,
                "numbers and durations have sums and averages, times a least and a greatest as well; first() and last() take everything",
            )
            return BAD
        result = Kind.FLOAT if name == "avg" and kind in (*NUMERIC, None) else kind
        return Typed(e.Aggregate(result or Kind.INTEGER, name, binding.index, reference.path, running, back), result)  # type: ignore[arg-type]

    def _kind_of(self, types: tuple[str, ...], path: str, span: t.Span) -> tuple[Kind | None, bool]:
        """The attribute's kind (None: unknown, nothing wrong), and whether it may be used at all."""
        if path in BUILT_IN:
            return BUILT_IN[path], True
        found = [event_type for name in types if (event_type := self.vocabulary.event_type(name)) is not None]
        if any(event_type.attribute(path) for event_type in found):
            kind = self.vocabulary.column_kind(path)
            if kind is None:
                message, hint = clash(path, self.vocabulary)
                self.report(message, span, hint)
                return None, False
            return kind, True
        occurring = [event_type for event_type in found if event_type.occurs]
        if not occurring:
            return None, True
        names = "/".join(event_type.name for event_type in occurring)
        listing = [attribute.name for event_type in occurring for attribute in event_type.attributes]
        what = "event type" if len(occurring) == 1 else "none of the event types"
        lacks = "has no attribute" if len(occurring) == 1 else "has the attribute"
        quoted = f'"{names}"' if len(occurring) == 1 else names
        self.report(f'{what} {quoted} {lacks} "{path}"', span, did_you_mean(path, listing, names))
        return None, False

    def _bare(self, node: t.Reference) -> Typed:
        """An attribute without variable, in temporal queries."""
        index = node.index
        if index is not None and index.anchor != "number":
            self.report("a temporal query has no closures", index.span, "arrays and maps take constants: tags[0], labels['k']")
            return BAD
        path = t.bare_path(node)
        kind, known = self._kind_of(self.tuple_types, path, node.span)
        return Typed(e.AttributeOf(kind or Kind.INTEGER, 0, path), kind) if known else BAD

    def fixed(self, kind: Kind | None, constant: t.Constant, attribute: str) -> e.Expression:
        """The constant of ``[attr = constant]``, as a value of the attribute's kind."""
        agreed = self._agree(
            [Typed(e.AttributeOf(kind or Kind.INTEGER, 0, attribute), kind), self.value(constant)], constant.span, "compared with"
        )
        return agreed[1].value
