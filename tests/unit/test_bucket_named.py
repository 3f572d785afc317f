"""An error in an engine names the query whose engine it is."""

from app.bucket.matching import named


def notes(queries: list[str]) -> list[str]:
    error = ValueError("kernel")
    named(error, queries)
    return error.__notes__


def test_an_error_names_its_query():
    assert notes(["shoplifting"]) == ["query shoplifting"]


def test_queries_that_share_an_engine_are_named_as_long_as_that_is_readable():
    assert notes([f"q{k}" for k in range(9)]) == ["one of the queries q0, q1, q2, q3, q4 …"]
