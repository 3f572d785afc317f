"""Where composite events may be written: never over the events they come from or under figures, and never under the name of a format they are not in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from app.cli.whole_files import require_apart
from app.errors import ConfigurationError, Finding
from app.files.opened import PACKED

TABLES = (".parquet", ".avro", ".feather", ".arrow")
"""Suffixes that say a format; everything else is JSON lines."""
FORMATS = "JSON lines (.jsonl, .ndjson or .json, perhaps .gz or .zst), .parquet, .avro, .feather or .arrow"
OTHERS = {
    *(".csv", ".tsv", ".psv", ".xlsx", ".xls", ".xlsm", ".ods", ".xml", ".html", ".htm", ".yaml", ".yml", ".toml", ".sql", ".pdf"),
    *(".orc", ".pq", ".ipc", ".avsc", ".proto", ".pb", ".db", ".sqlite", ".sqlite3", ".duckdb", ".pickle", ".pkl", ".npy", ".npz", ".h5"),
    *(".zip", ".bz2", ".xz", ".lz4", ".br", ".7z", ".tar", ".tgz"),
}
"""Suffixes of formats that nobody writes here: JSON lines of such a name would be taken for something else. Words that name no format (.txt, .log, .out) are fine."""


def require_target(out: Path | None, events: Sequence[Path], stats: Path | None = None) -> None:
    """Refuses a file that cannot be what its name says, that is one of the events' own, or the other one that is written, before anything is read.

    Args:
        out: for composite events; None: standard output.
        events: files, folders and globs that are read.
        stats: another file that is written.

    Raises:
        ConfigurationError: it is one of them.
    """
    wrong = [] if out is None else list(_named_wrongly(out))
    if wrong:
        raise ConfigurationError(wrong)
    require_apart({"--out": out, "--stats": stats}, events)


def _named_wrongly(out: Path) -> Iterable[Finding]:
    suffixes = [suffix.lower() for suffix in out.suffixes]
    packed = bool(suffixes) and suffixes[-1] in PACKED
    kind = next((suffix for suffix in reversed(suffixes) if suffix not in PACKED), "")
    if kind in OTHERS:
        yield Finding(f"--out {out}: composite events are not written as {kind}", hint=f"there are {FORMATS}")
    elif packed and kind in TABLES:
        yield Finding(f"--out {out}: a {kind} file is packed inside, not as a whole", hint=f"name it {out.with_suffix('').name}")
