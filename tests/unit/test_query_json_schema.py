"""The JSON schema that editors use is the one that the table of keys says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.query.text import keys
from app.query.text.json_schema import query_schema, query_schema_text
from app.query.text.key_table import key_table

SCHEMA = Path(__file__).parents[2] / "schemas" / "query.schema.json"


def test_schema_file_is_fresh(golden: Callable[[Path, str], None]) -> None:
    golden(SCHEMA, query_schema_text())


def test_every_key_is_described() -> None:
    properties = query_schema()["properties"]
    assert set(properties) == {key.name for key in keys.QUERY.keys}
    assert all(entry["description"] for entry in properties.values())


def test_the_page_of_keys_is_up_to_date():
    page = SCHEMA.parents[1] / "queries" / "keys.md"
    assert page.read_text(encoding="utf-8") == key_table(), "run: python -m app.query.text.key_table > queries/keys.md"
