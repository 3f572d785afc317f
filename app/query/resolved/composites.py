"""Queries that read the composite events of other queries (queries/README.md, *Queries over queries*): their order and their schemas."""

from __future__ import annotations

from collections.abc import Iterable

from app.errors import Finding
from app.events.types import Attribute, EventType, StreamSchema
from app.query.plan import ReturnField
from app.query.tree.document import Document

PREFIX = "query:"


def composite_schema(name: str, returns: Iterable[ReturnField] | None) -> StreamSchema:
    """The stream ``query:name``: one event type of the query's name with its return fields; anything goes where these are unknown."""
    if returns is None:
        return StreamSchema(PREFIX + name, (), inferred=True)
    attributes = tuple(Attribute(field.name, field.kind, nullable=True) for field in returns if not field.array)
    return StreamSchema(PREFIX + name, (EventType(name, attributes),))


def sources(document: Document) -> tuple[str, ...]:
    """The names of the queries that a query reads."""
    given = document.values.get("from")
    values = [entry.value for entry in given.value] if given is not None else []
    return tuple(value.removeprefix(PREFIX) for value in values if value.startswith(PREFIX))


def dependency_order(documents: list[Document], findings: list[Finding]) -> list[Document]:
    """The documents, every query behind those that it reads; cycles become findings."""
    by_name = {document.name: document for document in reversed(documents)}
    done: dict[int, Document] = {}
    for document in documents:
        _visit(document, by_name, done, [], findings)
    return list(done.values())


def _visit(
    document: Document, by_name: dict[str, Document], done: dict[int, Document], way: list[Document], findings: list[Finding]
) -> None:
    if id(document) in done:
        return
    if document in way:
        names = [one.name for one in way[way.index(document) :]] + [document.name]
        findings.append(
            Finding(
                f"queries read each other in a circle: {' reads '.join(names)}", document.location("from"), "take one of them out of from"
            )
        )
        return
    for name in sources(document):
        if name in by_name:
            _visit(by_name[name], by_name, done, [*way, document], findings)
    done[id(document)] = document
