"""Headers whose names the client cannot tell: the record goes on without them, and says so."""

from __future__ import annotations

from typing import Any

import pytest

from app.delivery import originals
from app.delivery.dead_letters import letter_of, mark_of
from app.delivery.originals import OriginalReader
from app.delivery.record_headers import UnreadableHeadersError, headers_of, readable_headers
from app.owners.egress import Limit, Records, add_late_events


class Broken:
    """A record as the client gives it, of a producer to whom header names are bytes."""

    def headers(self) -> Any:
        raise SystemError("<method 'headers'> returned a result with an exception set") from UnicodeDecodeError(
            "utf-8", b"\xff", 0, 1, "no"
        )

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "in"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, 99

    def key(self) -> bytes:
        return b"key"

    def value(self) -> bytes:
        return b"value"


class Whole(Broken):
    """One with headers."""

    def headers(self) -> Any:
        return [("mine", b"1"), ("none", None)]


def test_headers_are_told_or_not_never_half() -> None:
    assert headers_of(Whole()) == (("mine", b"1"), ("none", None))  # type: ignore[arg-type]
    assert readable_headers(Broken()) == ()  # type: ignore[arg-type]
    with pytest.raises(UnreadableHeadersError):
        headers_of(Broken())  # type: ignore[arg-type]


def test_a_late_event_or_letter_goes_out_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Consumer:
        def __init__(self, _: object) -> None:
            """Nothing is asked of a broker."""

        def assign(self, _: object) -> None:
            """All is there."""

        def poll(self, _: float) -> Broken:
            return Broken()

        def unassign(self) -> None:
            """Nothing more is asked."""

        def close(self) -> None:
            """Nothing was opened."""

    monkeypatch.setattr(originals, "Consumer", Consumer)
    (found,) = OriginalReader({}).read("in", 0, [7])
    assert (found.found, found.value, found.headers, found.problem) == (True, b"value", (), "the name of a header is no UTF-8")
    records = Records(Limit(20_000, "dead"))
    add_late_events(records, "late", [found])
    assert records.values == [b"value"]
    told = dict(records.headers[0])
    assert (told["cep.original"], told["cep.original-problem"]) == (b"without headers", b"the name of a header is no UTF-8")


def test_a_letter_with_such_a_header_is_shown() -> None:
    letter = letter_of(Broken())  # type: ignore[arg-type]
    assert letter is not None
    assert (letter.value, letter.reason) == (b"value", "unknown")
    assert mark_of(Broken()) is None  # type: ignore[arg-type]
