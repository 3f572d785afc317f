"""Avro containers → pieces (for now row by row)."""

from __future__ import annotations

from collections.abc import Iterator

from app.events.learnt import Piece
from app.events.reading import Reading
from app.events.row_files import avro_rows


def avro_pieces(reading: Reading) -> Iterator[Piece]:
    """The pieces of a container."""
    with reading.file.stream() as stream:
        yield from reading.of_rows(avro_rows(stream, reading.format))
