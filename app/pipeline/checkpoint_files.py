"""The checkpoint's file system: local and PVC paths as well as object stores (``s3://``, ``hdfs://``), through Arrow."""

from __future__ import annotations

from pyarrow import fs


def checkpoint_files(checkpoint: str) -> tuple[fs.FileSystem, str]:
    """The file system of a checkpoint, and the checkpoint's path in it.

    >>> checkpoint_files("file:/data/checkpoint")[1], checkpoint_files("relative/checkpoint")[1]
    ('/data/checkpoint', 'relative/checkpoint')
    """
    return fs.FileSystem.from_uri(checkpoint) if "://" in checkpoint else (fs.LocalFileSystem(), checkpoint.removeprefix("file:"))
