"""Headers of records as the client has them. Kafka's names are bytes to some producers; the client wants UTF-8 and refuses all headers of a record with another name."""

from __future__ import annotations

from confluent_kafka import Message

RecordHeaders = tuple[tuple[str, bytes | None], ...]


class UnreadableHeadersError(Exception):
    """The client cannot tell a record's headers."""


def headers_of(message: Message) -> RecordHeaders:
    """Name and value of each, in order; () without any.

    Raises:
        UnreadableHeadersError: a name is no UTF-8.
    """
    try:
        told = message.headers() or ()
    except Exception as error:
        raise UnreadableHeadersError("the name of a header is no UTF-8") from error
    return tuple((str(name), None if value is None else bytes(value)) for name, value in told)


def readable_headers(message: Message) -> RecordHeaders:
    """The same; () where they cannot be told."""
    try:
        return headers_of(message)
    except UnreadableHeadersError:
        return ()
