"""The keys of a query file as a table for people: ``python -m app.query.text.key_table > queries/keys.md``."""

from __future__ import annotations

from collections.abc import Iterator

from app.query.text import keys as k

HEAD = """# The keys of a query file

Made from the table that files are checked against: `python -m app.query.text.key_table > queries/keys.md`. What the keys do, with examples that
run, is in [the language by example](README.md); editors know them from [the schema](../schemas/query.schema.json).

| key | value | default | meaning |
|---|---|---|---|
"""
LANGUAGES = {
    "pattern": "a pattern",
    "condition": "a condition",
    "value": "a value",
    "opener": "an item WHERE a condition",
    "interval": "a comparison",
}


def key_table() -> str:
    """The page."""
    return HEAD + "".join(_rows(k.QUERY, ""))


def _rows(record: k.Record, above: str) -> Iterator[str]:
    for key in record.keys:
        path = f"{above}{key.name}"
        yield f"| `{path}` | {_told(key.shape)} | {_default(key)} | {_escaped(key.description)} |\n"
        inner = key.shape.shape if isinstance(key.shape, k.ListOf) else key.shape
        if isinstance(inner, k.Record):
            yield from _rows(inner, f"{path}{'[]' if inner is not key.shape else ''}.")


def _default(key: k.Key) -> str:
    if key.required:
        return "required"
    if key.default is None:
        return ""
    return f"`{str(key.default).lower() if isinstance(key.default, bool) else key.default}`"


def _told(shape: k.Shape) -> str:
    """What a value may be."""
    match shape:
        case k.Expression():
            return LANGUAGES[shape.language]
        case k.Text():
            return shape.of
        case k.Number():
            low = "" if shape.low is None else f" above {shape.low:g}" if shape.above else f" from {shape.low:g}"
            return f"a {'whole ' if shape.integer else ''}number{low}{'' if shape.high is None else f' to {shape.high:,}'}"
        case k.Flag():
            return "true or false"
        case k.Choice():
            return ", ".join(f"`{word}`" for word in shape.words)
        case k.Duration():
            return "a duration (`5 s`)"
        case k.Count():
            return f"`500 {shape.unit}`"
        case k.Either():
            return "; or ".join(map(_told, shape.shapes))
        case k.ListOf():
            many = {k.Record: "records", k.MapOf: "mappings"}.get(type(shape.shape), "names")
            return f"{'one, or ' if shape.single else ''}a list of {many}"
        case k.MapOf(k.Text()):
            return "a mapping of names to texts"
        case k.MapOf(k.Expression()):
            return "a mapping of names to values"
        case k.MapOf():
            return f"a mapping of names to {_told(shape.shape)}"
        case k.Record():
            return "see below"
        case k.Anything():
            return "anything"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(key_table(), end="")
