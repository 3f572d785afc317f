"""Secrets as files: what travels to other processes is where a secret is, never the secret.

A *reference*, ``${dir:/etc/cep/kafka:password}``, stands for the content of a file, as Kafka's own `DirectoryConfigProvider` has it: Java's clients
resolve it themselves, ours by `resolved`. It may stand in the middle of a value. Who keeps a client asks `mark_of` now and then whether the files are still the
same: Kubernetes exchanges the files of a mounted Secret in the running pod.
"""

from __future__ import annotations

import atexit
import hashlib
import hmac
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from app.errors import ConfigurationError, Finding

Value = TypeVar("Value")
Mark = tuple[tuple[int, int, int] | None, ...]
"""Of files: time of modification, size and inode of each; None where there is none."""

REFERENCE = re.compile(r"\$\{dir:([^:}]+):([^:}]+)\}")
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it, for us alone
"""Files that are only there for a process' life lie in memory where there is such a place."""


def reference(file: Path) -> str:
    """What stands for the content of a file."""
    return f"${{dir:{file.parent}:{file.name}}}"


def files_in(values: Iterable[object]) -> tuple[Path, ...]:
    """The files that values refer to, each once, sorted."""
    found = (match for value in values if isinstance(value, str) for match in REFERENCE.findall(value))
    return tuple(sorted({Path(folder, name) for folder, name in found}))


def resolved(options: Mapping[str, Value]) -> dict[str, Value]:
    """Options with the present content of the files that they refer to.

    Raises:
        ConfigurationError: one cannot be read.
    """
    return {name: _resolved(value) if isinstance(value, str) else value for name, value in options.items()}  # type: ignore[misc]


def _resolved(value: str) -> str:
    return REFERENCE.sub(lambda match: read_secret(Path(match[1], match[2])), value)


def read_secret(file: Path) -> str:
    """The content of a file without the line break at its end.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        hint = "secrets are mounted at the same paths in driver and executors"
        raise ConfigurationError([Finding(f"cannot read the secret {file}: {reason}", hint=hint)]) from error


def mark_of(files: Iterable[Path]) -> Mark:
    """What changes when one of the files is exchanged or written; links are followed."""
    return tuple(map(_mark, files))


def _mark(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def secret_file(secret: SecretStr | None, file: Path | None) -> Path | None:
    """Where a secret is that was given as a file, or as a value: then in a file of this process, which nobody else may read."""
    if file is not None:
        return file.absolute()
    return None if secret is None else _kept.file_of(secret.get_secret_value())


def derived(secret: str, purpose: str) -> bytes:
    """A key of 32 bytes for one purpose: what uses it learns nothing about keys for others."""
    return hmac.digest(secret.encode(), purpose.encode(), hashlib.sha256)


class _Kept:
    """Files that this process has written; they go when it ends in any way but by SIGKILL."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._folder: Path | None = None

    def file_of(self, secret: str) -> Path:
        """Always the same file for the same secret."""
        known = self._files.get(secret)
        if known is None:
            if self._folder is None:
                in_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
                self._folder = Path(tempfile.mkdtemp(prefix="cep-secrets-", dir=MEMORY if in_memory else None))  # mode 0700
                atexit.register(self._remove, os.getpid())
            known = self._files[secret] = self._folder / str(len(self._files))
            with os.fdopen(os.open(known, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
                out.write(secret)
        return known

    def _remove(self, owner: int) -> None:
        if self._folder is not None and os.getpid() == owner:  # forked children leave it alone
            shutil.rmtree(self._folder, ignore_errors=True)


_kept = _Kept()
