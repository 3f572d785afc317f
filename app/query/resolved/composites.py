"""Queries that read the composite events of other queries (queries/README.md, *Queries over queries*): their order and their schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
        _visit(document, by_name, done, findings)
    return list(done.values())


def _visit(document: Document, by_name: dict[str, Document], done: dict[int, Document], findings: list[Finding]) -> None:
    """Puts a document behind those that it reads. What is being visited is kept here: chains of queries may be longer than Python calls."""
    way: dict[int, tuple[Document, Iterator[str]]] = {}

    def enter(one: Document) -> None:
        if id(one) not in done:
            way[id(one)] = one, iter(sources(one))

    enter(document)
    while way:
        reader, unread = way[next(reversed(way))]
        name = next((name for name in unread if name in by_name), None)
        if name is None:
            done[id(reader)] = reader
            way.popitem()
        elif id(by_name[name]) in way:
            _circle(by_name[name], [one for one, _ in way.values()], findings)
        else:
            enter(by_name[name])


def _circle(document: Document, way: list[Document], findings: list[Finding]) -> None:
    begin = next(place for place, one in enumerate(way) if one is document)
    names = [one.name for one in way[begin:]] + [document.name]
    message = f"queries read each other in a circle: {' reads '.join(names)}"
    findings.append(Finding(message, document.location("from"), "take one of them out of from"))
