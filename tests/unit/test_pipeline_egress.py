"""What leaves: no record is so large that the sink would fail, and none is dropped for it."""

from app.delivery.originals import Original
from app.owners.egress import Failure, Limit, Records, add_dead_letters, add_late_events

LIMIT = Limit(20_000, "dead")


def only(records):
    assert len(records) == 1
    assert records.to_arrow().num_rows == 1
    return records.topics[0], records.keys[0], records.values[0], dict(records.headers[0])


def dead_letter(value, headers=(), text="no"):
    records = Records(LIMIT)
    original = Original("in", 3, 7, 99, b"key", value, headers)
    add_dead_letters(records, "dead", "cep", [original], [Failure(7, "undecodable", text)])
    return only(records)


def test_a_dead_letter_carries_the_original_and_the_reason():
    topic, key, value, headers = dead_letter(b"value", (("mine", b"1"), ("empty", None)))
    assert (topic, key, value) == ("dead", b"key", b"value")
    assert headers["mine"] == b"1"
    assert headers["empty"] is None
    assert headers["__connect.errors.topic"] == b"in"
    assert (headers["__connect.errors.partition"], headers["__connect.errors.offset"]) == (b"3", b"7")
    assert headers["__connect.errors.exception.class.name"] == b"undecodable"


def test_a_letter_says_whether_the_original_is_gone_or_could_not_be_read():
    for problem, told in (
        ("", {"cep.original": b"gone"}),
        ("no right", {"cep.original": b"unreadable", "cep.original-problem": b"no right"}),
    ):
        records = Records(LIMIT)
        add_late_events(records, "late", [Original("in", 3, 7, found=False, problem=problem)])
        _, _, value, headers = only(records)
        assert value is None
        assert {name: text for name, text in headers.items() if name.startswith("cep.original")} == told


def test_a_dead_letter_that_would_be_too_large_comes_without_its_value():
    topic, key, value, headers = dead_letter(b"x" * 19_990, (("mine", b"1"),))
    assert (topic, key, value) == ("dead", b"key", None)
    assert headers["mine"] == b"1"
    assert headers["cep.original"] == b"oversized"
    assert headers["__connect.errors.offset"] == b"7"


def test_headers_that_are_too_large_are_left_out_but_never_the_place_and_reason():
    _, key, value, headers = dead_letter(b"x", (("mine", b"1" * 20_000),))
    assert (key, value) == (None, None)
    assert "mine" not in headers
    assert headers["__connect.errors.offset"] == b"7"
    assert headers["__connect.errors.exception.class.name"] == b"undecodable"


def test_a_long_text_is_cut():
    assert len(dead_letter(b"x", text="y" * 100_000)[3]["__connect.errors.exception.message"]) == 2000


def test_a_late_event_that_would_be_too_large_comes_without_its_value():
    records = Records(LIMIT)
    add_late_events(records, "late", [Original("in", 0, 5, 99, None, b"x" * 20_000)])
    topic, _, value, headers = only(records)
    assert (topic, value, headers["cep.original"], headers["cep.reason"]) == ("late", None, b"oversized", b"late")
    assert records.oversized == 0


def test_a_composite_event_that_would_be_too_large_becomes_a_dead_letter():
    records = Records(LIMIT)
    records.add("alerts", b"key", b"x" * 20_000, (("ce_specversion", b"1.0"), ("ce_id", b"abc")), composite=True)
    topic, key, value, headers = only(records)
    assert (topic, key, value) == ("dead", b"key", None)
    assert headers["ce_id"] == b"abc"
    assert headers["__connect.errors.exception.class.name"] == b"oversized"
    assert b"alerts" in headers["__connect.errors.exception.message"]
    assert records.oversized == 1


def test_somebody_elses_cloud_event_that_is_too_large_can_be_read_again_where_it_was():
    """It came with the input; only what is missing is noted, or it would be sent again as a deletion."""
    records = Records(LIMIT)
    records.add("late", b"key", b"x" * 20_000, (("ce_specversion", b"1.0"), ("cep.reason", b"late")))
    topic, key, value, headers = only(records)
    assert (topic, key, value, headers["cep.original"]) == ("late", b"key", None, b"oversized")
    assert records.oversized == 0


def test_records_that_come_together_are_looked_at_one_by_one_where_one_may_be_too_large():
    headers = (("ce_specversion", b"1.0"), ("ce_id", b"abc"))
    records = Records(LIMIT)
    records.extend("alerts", [b"k", None], [b"x", b"y" * 20_000], [headers, headers], headers)
    assert records.topics == ["alerts", "dead"]
    assert records.values == [b"x", None]
    assert records.oversized == 1
    together = Records(LIMIT)
    together.extend("alerts", [b"k", None], [b"x", b"y"], [headers, headers], headers)
    assert (together.topics, together.keys, together.values, together.headers) == (
        ["alerts"] * 2,
        [b"k", None],
        [b"x", b"y"],
        [headers] * 2,
    )
