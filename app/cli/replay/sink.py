"""Where `cep replay` writes composite events: JSON lines, perhaps packed, or tables; the name of the file says which."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from app.cli.inputs.events import LineFinder
from app.cli.replay.avro import AvroFile
from app.cli.replay.lines import line_blocks
from app.cli.replay.matches import QueryMatches
from app.cli.replay.tables import table_blocks, table_schema
from app.cli.replay.target import TABLES
from app.cli.whole_files import packed, whole_file
from app.errors import CepError
from app.query.plan import QUERY_STREAM, Catalog


class Sink(Protocol):
    """Takes composite events."""

    def write(self, queries: Sequence[QueryMatches], finder: LineFinder, topics: Sequence[str] | None) -> None:
        """Writes all matches in their order; those of later calls come behind."""


class _Lines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, queries: Sequence[QueryMatches], finder: LineFinder, topics: Sequence[str] | None) -> None:
        for block in line_blocks(queries, finder, topics):
            self._file.write(block)


class _Table:
    def __init__(self, writer: Any, schema: pa.Schema) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, queries: Sequence[QueryMatches], finder: LineFinder, topics: Sequence[str] | None) -> None:
        for block in table_blocks(queries, finder, self._schema):
            self._writer.write_batch(block)


@contextmanager
def opened(out: Path | None, catalog: Catalog, *, identities: bool = False) -> Iterator[Sink]:
    """A file for composite events (standard output when there is none), closed at the end.

    Args:
        out: its suffix says what it is: .parquet, .avro, .feather or .arrow, else JSON lines, packed with .gz or .zst.
        catalog: the queries.
        identities: whether composite events are to have them; tables have none.

    Raises:
        CepError: the queries do not go into such a file.
    """
    if out is None:
        yield _Lines(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    suffix = out.suffix.lower()
    if suffix not in TABLES:
        with whole_file(out) as path, packed(path, out) as file:
            yield _Lines(file)
        return
    _require_plain(out, catalog, identities=identities)
    schema = None if suffix == ".avro" else table_schema(catalog)
    with whole_file(out) as path, path.open("wb") as file:
        if schema is None:
            yield AvroFile(file, catalog)
            return
        with pq.ParquetWriter(file, schema) if suffix == ".parquet" else ipc.new_file(file, schema) as writer:
            yield _Table(writer, schema)


def _require_plain(out: Path, catalog: Catalog, *, identities: bool) -> None:
    """Tables have numbers for positions, and nothing else."""
    if identities:
        raise CepError(f"{out}: identities are written in JSON lines only")
    if any(stream.startswith(QUERY_STREAM) for plan in catalog.plans for stream in plan.streams):
        raise CepError(f"{out}: queries that read other queries' composite events are written in JSON lines only")
