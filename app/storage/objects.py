"""Files in an S3 bucket: an object appears when its upload is completed, whole, and replaces the one of its name; there are no drafts.

Arrow's stream completes the upload when it is closed, and closes itself when it is thrown away: a stream that got half of a file would publish that
half. So everything is there before the stream is opened, and it gets all of it in one call.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from app.config.addresses import BucketAddress
from app.storage.posix import sweep_folder
from app.storage.store import Part, Stored, checked, failing, too_short

IN_MEMORY = 64 << 20
"""Parts of more bytes go through a local file: joining them would hold them twice."""
IN_PARTS = 10 << 20
"""Arrow uploads so many bytes in parts. Fewer go in one PUT, which leaves what had the name before, or replaces it."""
DELETED_AT_ONCE = 8
"""A deletion takes several round trips."""


class ObjectStore:
    """A `Store` in an S3 bucket.

    Uploads that a killed process never completed are not visible, but kept by the server: the bucket needs a lifecycle rule that aborts incomplete
    multipart uploads after a day.

    Args:
        address: bucket, prefix, endpoint, region.
        scratch: local folder for files on their way.
    """

    def __init__(self, address: BucketAddress, scratch: Path) -> None:
        self._address, self._scratch = address, scratch
        self._base = f"{address.bucket}/{address.prefix}".rstrip("/")
        self._opened: fs.S3FileSystem | None = None

    @property
    def uri(self) -> str:
        """Bucket, prefix and options."""
        return self._address.uri

    def write(self, name: str, parts: Iterable[Part]) -> int:
        """See `Store.write`."""
        with self._failing("write", checked(name)):
            rest, first, size = iter(parts), list[Part](), 0
            for part in rest:
                first.append(part)
                size += memoryview(part).nbytes
                if size > IN_MEMORY:
                    return self._write_spooled(name, chain(first, rest))
            return self._put(name, pa.py_buffer(b"".join(first)))

    def write_file(self, name: str, path: Path) -> int:
        """See `Store.write_file`. Uploaded from the mapped file, without a copy in memory."""
        with self._failing("write", checked(name)):
            with pa.memory_map(str(path)) as file:
                size = self._put(name, file.read_buffer())
            path.unlink()
            return size

    def sync(self, names: Iterable[str]) -> None:
        """See `Store.sync`: whatever is in a bucket stays."""

    def read(self, name: str) -> bytes:
        """See `Store.read`."""
        with self._failing("read", checked(name)), self._files.open_input_file(self._key(name)) as stream:
            data: bytes = stream.readall()
        return data

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """See `Store.read_range`."""
        with self._failing("read", checked(name)), self._files.open_input_file(self._key(name)) as stream:
            size = stream.size()
            data: bytes = b"" if offset + length > size else stream.read_at(length, offset)
        if len(data) < length:
            raise too_short(name, self.uri, size, offset + length)
        return data

    def names(self, folder: str = "") -> list[Stored]:
        """See `Store.names`."""
        base = self._key(checked(folder)) if folder else self._base
        with self._failing("list", folder):
            infos = self._files.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        files = (Stored(info.path[len(self._base) + 1 :], info.size) for info in infos if info.type == fs.FileType.File)
        return sorted(file for file in files if not any(part.startswith(".") for part in file.name.split("/")))

    def delete(self, names: Iterable[str]) -> None:
        """See `Store.delete`."""
        wanted = [checked(name) for name in names]
        with ThreadPoolExecutor(DELETED_AT_ONCE) as pool:
            for _ in pool.map(self._delete, wanted):
                pass

    def scratch(self) -> Path:
        """See `Store.scratch`: of this machine."""
        with self._failing("make", str(self._scratch)):
            self._scratch.mkdir(parents=True, exist_ok=True)
        return self._scratch

    def sweep(self) -> int:
        """See `Store.sweep`: of the local folder; the bucket shows no drafts."""
        with self._failing("sweep", str(self._scratch)):
            return sweep_folder(self.scratch())

    @property
    def _files(self) -> fs.S3FileSystem:
        opened = self._opened
        if opened is None:
            opened = self._opened = _client(self._address)
        return opened

    def _key(self, name: str) -> str:
        return f"{self._base}/{name}"

    def _put(self, name: str, data: pa.Buffer) -> int:
        try:
            with self._files.open_output_stream(self._key(name)) as stream:
                stream.write(data)
        except BaseException:
            if data.size >= IN_PARTS:
                with suppress(Exception):  # Arrow ends an upload that failed with the parts that are there: a torn file under its name
                    self._files.delete_file(self._key(name))
            raise
        return data.size

    def _write_spooled(self, name: str, parts: Iterable[Part]) -> int:
        path = self.scratch() / uuid.uuid4().hex
        try:
            with failing("write", path.name, str(self._scratch)), path.open("xb") as file:
                file.writelines(parts)
            return self.write_file(name, path)
        finally:
            path.unlink(missing_ok=True)

    def _delete(self, name: str) -> None:
        with self._failing("delete", name), suppress(FileNotFoundError):
            self._files.delete_file(self._key(name))

    def _failing(self, what: str, name: str) -> AbstractContextManager[None]:
        return failing(what, name, self.uri)


def _client(address: BucketAddress) -> fs.S3FileSystem:
    scheme, _, server = (address.endpoint or "").partition("://")
    place = {"scheme": scheme, "endpoint_override": server} if address.endpoint else {}
    if address.region:
        place["region"] = address.region
    # Small files go in one PUT, opened late; no writes behind our back: they would copy what they send.
    return fs.S3FileSystem(**place, allow_delayed_open=True, background_writes=False)
