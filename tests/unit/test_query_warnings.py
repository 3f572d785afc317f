"""Warnings about what cannot be seen from a file of golden queries: without schemas, or beside errors."""

from __future__ import annotations

from app.query.compile import compile_texts
from app.query.resolved.vocabulary import UNKNOWN

QUERY = 'name: q\nevent: SEQ(Order o, Payment p)\nwhere: "{where}"\nwithin: 5 m\n'


def told(text: str) -> list[str]:
    return [finding.message for finding in compile_texts([("q.yaml", text)], UNKNOWN).findings]


def test_a_variable_in_brackets_is_no_attribute() -> None:
    (message,) = told(QUERY.format(where="[o.id]"))
    assert message == '[o.id] is the attribute "o.id" of all events, and "o" is a variable'
    assert told(QUERY.format(where="[customer.id]")) == []


def test_what_is_missing_because_something_else_is_broken_is_not_told() -> None:
    assert told(QUERY.format(where="[id]").replace("where", "whre")) == ['unknown key "whre"']
    assert told(QUERY.format(where="o.id = p.id AND")) != [] and all(
        "bucket" not in one for one in told(QUERY.format(where="o.id = p.id AND"))
    )
    assert "without [attr] all events go to one bucket: the query will not scale out" in told(QUERY.format(where="o.id > p.id"))


def test_an_element_of_a_closure_in_a_group_may_be_there() -> None:
    group = "name: q\nevent: SEQ(A a, (SEQ(B b{2}, C c))+, D d)\nwhere: '[id] AND b[3].x > 1'\nwithin: 1 m\n"
    assert told(group) == []


def test_a_quantifier_repeats_all_events_that_differ() -> None:
    block = "name: q\nevent: SEQ(ANY(2; A, B){2} x, C c)\nwhere: '[id] AND x[%s].p > 1'\nwithin: 1 m\n"
    assert told(block % 3) == told(block % 4) == []
    (message,) = told(block % 5)
    assert message.startswith('"x" never has an element 5: it binds at most 4 events')
