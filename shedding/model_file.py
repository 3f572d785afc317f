"""Models in files: a zip of one JSON manifest and one .npy per array, nothing that runs code when it is read."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shedding.interface import Arrays, Json, Manifest, Model
from shedding.registry import METHODS, method

FORMAT = 1
_KIND = "shedding model"
_MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same model is the same file, whenever it is written."""


class ModelFileError(Exception):
    """A model file that cannot be used.

    Attributes:
        hint: what to do about it.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}\nhint: {hint}")
        self.hint = hint


class DamagedModelError(ModelFileError):
    """Bytes were lost or changed."""


class ForeignModelError(ModelFileError):
    """No model, or one for something else."""


class NewerModelError(ModelFileError):
    """Written by a later version."""


@dataclass(frozen=True, slots=True)
class _Contents:
    fields: Json
    files: dict[str, bytes]


def save(model: Model[Any], path: Path) -> None:
    """Writes a model, beside its place until it is whole: one that is in use there is not spoiled by a full disk.

    Raises:
        OSError: the file cannot be written.
    """
    arrays = {name: _npy(array) for name, array in sorted(model.arrays().items())}
    fields = {
        "kind": _KIND,
        "format": FORMAT,
        "manifest": model.manifest.as_json(),
        "parameters": model.parameters(),
        "sha256": {name: sha256(content).hexdigest() for name, content in arrays.items()},
    }
    described = json.dumps({**fields, "self": _digest(fields)}, indent=1, sort_keys=True).encode()
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in {_MANIFEST: described, **{f"{name}.npy": part for name, part in arrays.items()}}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), part, zipfile.ZIP_DEFLATED)
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_bytes(content.getvalue())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def load(path: Path, *, query: str | None = None) -> Model[Any]:
    """Reads a model.

    Args:
        path: a file that `save` wrote.
        query: fingerprint of the query that it is for; a model without one fits all.

    Raises:
        ForeignModelError, DamagedModelError, NewerModelError: it cannot be used, and why.
        OSError: it cannot be read.
    """
    return read(path.read_bytes(), path, query=query)


def read(content: bytes, path: Path, *, query: str | None = None) -> Model[Any]:
    """The same for a file's content; ``path`` is for messages."""
    contents = _opened(path, content)
    fields = _checked(path, contents)
    try:
        manifest = Manifest.from_json(fields["manifest"])
        if manifest.method not in METHODS:
            raise NewerModelError(
                f'{path}: there is no shedder "{manifest.method}" in this version',
                f"there are {', '.join(METHODS)}; or install a later version",
            )
        if query is not None:
            require_query(path, manifest, query)
        return method(manifest.method).restored(manifest, fields["parameters"], _arrays(path, fields, contents))
    except (KeyError, TypeError, ValueError, AttributeError) as cause:
        raise DamagedModelError(f"{path}: the model is not complete ({cause!r})", "train it again") from cause


def require_query(path: Path, manifest: Manifest, query: str) -> None:
    """Says no to a model that was learned for another query than that of this fingerprint; one without a query fits all.

    Raises:
        ForeignModelError: it does not fit.
    """
    if manifest.query not in {"", query}:
        raise ForeignModelError(
            f"{path}: learned for another query, or for another version of it (fingerprint {manifest.query}, not {query})",
            "train a model for this query",
        )


def _opened(path: Path, content: bytes) -> _Contents:
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except Exception as cause:  # zipfile lets out whatever its parts raise: BadZipFile, zlib.error, struct.error, NotImplementedError, ...
        if content[:2] == b"PK":
            raise DamagedModelError(f"{path}: the file is damaged ({cause})", "copy it again, or train the model again") from cause
        raise ForeignModelError(f"{path}: this is no model of a shedder", "models are written by training") from cause
    if _MANIFEST not in files:
        raise ForeignModelError(f"{path}: this is no model of a shedder: it has no {_MANIFEST}", "models are written by training")
    try:
        fields = json.loads(files[_MANIFEST])
    except ValueError as cause:
        raise DamagedModelError(f"{path}: the manifest is damaged", "copy the file again, or train the model again") from cause
    if not isinstance(fields, dict) or fields.get("kind") != _KIND:
        raise ForeignModelError(f"{path}: this is no model of a shedder", "models are written by training")
    return _Contents(fields, files)


def _checked(path: Path, contents: _Contents) -> Json:
    fields = dict(contents.fields)
    written = fields.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise NewerModelError(
            f"{path}: written in format {written}, this version reads up to {FORMAT}", "install a later version, or train it again"
        )
    if fields.pop("self", None) != _digest(fields):
        raise DamagedModelError(f"{path}: the manifest was changed", "copy the file again, or train the model again")
    return fields


def _arrays(path: Path, fields: Json, contents: _Contents) -> Arrays:
    found: Arrays = {}
    for name, digest in fields["sha256"].items():
        content = contents.files.get(f"{name}.npy")
        if content is None or sha256(content).hexdigest() != digest:
            raise DamagedModelError(f"{path}: the array {name} is missing or was changed", "copy the file again, or train the model again")
        array = np.load(BytesIO(content), allow_pickle=False)
        array.flags.writeable = False
        found[name] = array
    return found


def _npy(array: NDArray[Any]) -> bytes:
    content = BytesIO()
    np.save(content, np.ascontiguousarray(array), allow_pickle=False)
    return content.getvalue()


def _digest(fields: Json) -> str:
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
