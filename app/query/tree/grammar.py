"""The grammar of patterns and expressions (queries/README.md), for lark's LALR parser.

Conditions and values share one chain of rules, because an opening parenthesis does not say which of them follows;
`app.query.tree.build` checks afterwards that each stands where it may.
"""

from __future__ import annotations

from functools import cache

from lark import Lark

RESERVED = ("SEQ", "AND", "OR", "ANY", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "TRUE", "FALSE", "BY", "FOR", "UNTIL", "WHERE")
"""Reserved in any case: no type, variable or attribute is written so without quotes."""

UNITS = "ms|seconds?|sec|minutes?|min|hours?|days?|weeks?|s|m|h|d|w"

GRAMMAR = rf"""
pattern: _node

_node: sequence | conjunction | disjunction | group | primary
sequence: SEQ "(" _item ("," _item)* ")"
conjunction: AND "(" _node ("," _node)* ")"
disjunction: OR "(" _node ("," _node)* ")"
group: "(" _node ")" [QUANTIFIER]
_item: _node | negation
negation: (BANG | NOT) "(" _node ")" [FOR DURATION]
primary: types [QUANTIFIER] [variable [QUANTIFIER]] [until]
variable: NAME [BRACKETS]
until: UNTIL "(" _condition ")"
types: type_name
     | ANY "(" type_name ("," type_name)* ")" -> any_types
     | ANY "(" INT ";" type_name ("," type_name)* [BY path] ")" -> n_types
type_name: NAME | STRING

opener: types [NAME] [WHERE _condition]

predicate: _condition
value: _condition
interval: OPERATOR DURATION -> interval_length
        | NAME "(" bound "," bound ")" -> interval_place
bound: STRING | TIMESTAMP | INT

_condition: or_ | _conjunct
or_: _conjunct (OR _conjunct)+
_conjunct: and_ | _negated
and_: _negated (AND _negated)+
_negated: not_ | _comparison
not_: NOT _negated
_comparison: comparison | in_ | between | is_null | like | _sum
comparison: _sum OPERATOR _sum
in_: _sum [NOT] IN "(" constant ("," constant)* ")"
between: _sum [NOT] BETWEEN _sum AND _sum
is_null: _sum IS [NOT] NULL
like: _sum [NOT] LIKE STRING
_sum: sum | _product
sum: _sum (PLUS | MINUS) _product
_product: product | _unary
product: _product (STAR | SLASH | PERCENT) _unary
_unary: negative | _atom
negative: MINUS _unary
_atom: literal | reference | call | parentheses | equivalence
parentheses: "(" _condition ")"
literal: INT | FLOAT | STRING | TRUE | FALSE | DURATION | TIMESTAMP
constant: [MINUS] (INT | FLOAT | STRING | TRUE | FALSE | DURATION | TIMESTAMP)
reference: NAME (attribute | index)*
attribute: "." NAME
index: "[" (closure_index | INT | STRING) "]"
closure_index: [UPTO] NAME [MINUS INT]
call: NAME "(" [_condition ("," _condition)*] ")"
equivalence: "[" path [OPERATOR constant] "]"
path: NAME (attribute | path_index)*
path_index: "[" (INT | STRING) "]"

SEQ.5: /SEQ\b/i
AND.5: /AND\b|∧/i
OR.5: /OR\b|∨/i
ANY.5: /ANY\b/i
NOT.5: /NOT\b|¬/i
IN.5: /IN\b/i
BETWEEN.5: /BETWEEN\b/i
IS.5: /IS\b/i
NULL.5: /NULL\b/i
LIKE.5: /LIKE\b/i
TRUE.5: /TRUE\b/i
FALSE.5: /FALSE\b/i
BY.5: /BY\b/i
FOR.5: /FOR\b/i
UNTIL.5: /UNTIL\b/i
WHERE.5: /WHERE\b/i
BANG: /!(?!=)/
QUANTIFIER: /[+*?]\??|\{{\s*\d*\s*(?:,\s*\d*\s*)?\}}\??/
BRACKETS: /\[\s*\]/
DURATION.4: /\d+(?:\.\d+)?\s*(?:{UNITS})\b/
FLOAT.3: /\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+/
INT.2: /\d+/
TIMESTAMP.4: /TIMESTAMP\s*'(?:[^']|'')*'/i
STRING: /'(?:[^']|'')*'/
NAME: /(?!(?:{"|".join(RESERVED)})\b)[^\W\d]\w*/i
UPTO: ".."
OPERATOR: /<=|>=|!=|≠|≤|≥|=|<|>/
PLUS: "+"
MINUS: "-"
STAR: "*"
SLASH: "/"
PERCENT: "%"
%ignore /\s+/
"""

STARTS = ("pattern", "opener", "predicate", "value", "interval")


@cache
def parser() -> Lark:
    """The parser, built once per process."""
    return Lark(GRAMMAR, parser="lalr", start=list(STARTS), propagate_positions=True, maybe_placeholders=True)
