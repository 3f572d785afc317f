"""Files of events as bytes: which there are, what is in them, and their lines in blocks of constant size, unpacked where they are packed."""

from __future__ import annotations

import glob
import shutil
import sys
import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from app.errors import Finding, FindingsError, Location

BLOCK_BYTES = 16 << 20
"""Of a text file that are in memory at a time: some 140,000 events of 120 bytes, about a slice of matching."""
STANDARD_INPUT = "-"
PACKED: Mapping[str, str] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
SUFFIXES: Mapping[str, str] = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
    ".avro": "avro",
    ".parquet": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
}
"""What a file's name says is in it; anything else is JSON lines. In folders only files of these names are events."""
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"Obj\x01", "avro"),
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"FEA1", "arrow"),
)
"""How files begin that come without a name."""


@dataclass(frozen=True, slots=True)
class EventFile:
    """A file of events.

    Attributes:
        name: as it stands in findings.
        path: where it is.
        kind: json, csv, avro, parquet or arrow.
        packing: gzip or zstd; empty: none.
    """

    name: str
    path: Path
    kind: str
    packing: str = ""

    @staticmethod
    def of(path: Path) -> EventFile:
        """A file by its name."""
        suffixes = [suffix.lower() for suffix in path.suffixes]
        packing = PACKED.get(suffixes[-1], "") if suffixes else ""
        kind = next((SUFFIXES.get(suffix, "json") for suffix in reversed(suffixes) if suffix not in PACKED), "json")
        return EventFile(str(path), path, kind, packing)

    @property
    def tabular(self) -> bool:
        """Whether columns of the file are called as its writer likes: where type and time stand is then the configuration's business."""
        return self.kind != "json"

    def stream(self) -> pa.NativeFile:
        """The bytes from the beginning, unpacked.

        Raises:
            OSError: the file cannot be opened.
        """
        return pa.input_stream(self._readable(), compression=self.packing or None)

    def seekable(self) -> pa.NativeFile:
        """The bytes in any order; of a packed file all are in memory then."""
        if not self.packing:
            return pa.OSFile(self._readable())
        with self.stream() as stream:
            return pa.BufferReader(self._read(stream, -1))

    def _readable(self) -> str:
        """The path, of a file that can be opened: Arrow's errors name no file, and say no short reason."""
        self.path.open("rb").close()
        return str(self.path)

    def _read(self, stream: pa.NativeFile, size: int) -> bytes:
        try:
            return stream.read() if size < 0 else stream.read(size)
        except OSError as error:
            if not self.packing:
                raise
            raise FindingsError([Finding(f"no {self.packing} file, or a broken one: {error}", Location(self.name, 1, 1))]) from error

    def blocks(self) -> Iterator[bytes]:
        """Blocks of whole lines.

        Raises:
            OSError: the file cannot be read.
            FindingsError: a packed file is broken.
        """
        rest = b""
        with self.stream() as stream:
            while block := self._read(stream, BLOCK_BYTES):
                end = block.rfind(b"\n") + 1
                if not end:
                    rest += block
                    continue
                yield rest + block[:end]
                rest = block[end:]
        if rest:
            yield rest


def event_files(given: Iterable[str | Path]) -> tuple[EventFile, ...]:
    """The files that paths mean: files as given, folders as all files of events in and below them, globs as what they match; sorted within each.

    Raises:
        OSError: there is no such file.
    """
    files: dict[Path, EventFile] = {}
    for one in given:
        path = Path(one)
        if path.is_dir():
            found = sorted(inner for inner in path.rglob("*") if inner.is_file() and _is_named(inner))
        elif not path.exists() and glob.has_magic(str(one)):
            found = sorted(Path(inner) for inner in glob.glob(str(one), recursive=True) if Path(inner).is_file())  # noqa: PTH207 - the user's own pattern, perhaps absolute
        else:
            found = [path]
        if not found:
            raise FileNotFoundError(2, "no file of events there", str(one))
        files.update({inner: EventFile.of(inner) for inner in found})
    return tuple(files.values())


def _is_named(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
    return bool(suffixes) and suffixes[-1] in SUFFIXES and not path.name.startswith(".")


class StandardInput(AbstractContextManager["EventFile"]):
    """Standard input as a file: copied to a temporary one, since some formats are read from their end, and others twice."""

    def __init__(self, source: BinaryIO | None = None) -> None:
        self._source = source
        self._copy = tempfile.NamedTemporaryFile(prefix="cep-input-")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> EventFile:
        shutil.copyfileobj(self._source or sys.stdin.buffer, self._copy, 1 << 20)
        self._copy.flush()
        path = Path(self._copy.name)
        packing = _begins(path, "")
        packing = packing if packing in PACKED.values() else ""
        kind = _begins(path, packing)
        return EventFile("standard input", path, kind or _text_kind(path, packing), packing)

    def __exit__(self, *_: object) -> None:
        self._copy.close()


def _begins(path: Path, packing: str) -> str:
    with pa.input_stream(str(path), compression=packing or None) as stream:
        start = stream.read(8)
    return next((kind for magic, kind in MAGIC if start.startswith(magic)), "")


def _text_kind(path: Path, packing: str) -> str:
    with pa.input_stream(str(path), compression=packing or None) as stream:
        start = stream.read(4096).removeprefix(BOM_UTF8).lstrip()
    return "json" if not start or start.startswith((b"{", b"[")) else "csv"
