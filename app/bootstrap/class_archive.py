"""Spark's classes, parsed and verified once: Java's class data sharing maps them from a file, which takes a third off a start.

Made once per Java, Spark and connector (about half a minute, beside the kernels), for the driver's JVM, which is the only one in local mode. Nothing depends on it: without it, or
where it does not fit, the JVM reads its jars as ever. Measurements: ``ops/decisions/0034-latency.md``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from app.bootstrap.artifacts import connector_jars
from app.bootstrap.java import find_java
from app.bootstrap.places import PROJECT, cache_folder
from app.bootstrap.progress import say, step
from app.bootstrap.turn import exclusive

_TRAINING = "app.pipeline.class_training"
_LONGEST_S = 300


def driver_class_path() -> list[Path]:
    """All jars of the driver, in an order that does not depend on the file system: an archive is for one order only."""
    return [*sorted(_spark_jars()), *connector_jars()]


def class_archive() -> Path | None:
    """The archive for this Java and these jars, if it was made."""
    archive = _place()
    return archive if archive.exists() else None


def make_class_archive() -> None:
    """Make the archive, unless it is there, could not be made before (some Javas cannot), or ``CEP_CLASS_ARCHIVE=off``."""
    if os.environ.get("CEP_CLASS_ARCHIVE") == "off" or _place().exists() or _failed(_place()).exists():
        return
    try:
        _make()
    except (OSError, subprocess.TimeoutExpired) as error:  # a slower start is no reason not to start
        say(f"! java classes: {error}")


def _make() -> None:
    archive = _place()
    archive.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(archive.parent, os.W_OK):
        return
    with exclusive(archive.with_suffix(".lock")):
        if archive.exists():
            return
        with step("java classes", "parsed once, kept in the cache"), tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            draft, said = Path(folder) / "draft.jsa", Path(folder) / "said"
            with said.open("wb") as log:
                trained = subprocess.run(
                    [sys.executable, "-m", _TRAINING, str(draft)], cwd=PROJECT, stdout=log, stderr=log, timeout=_LONGEST_S, check=False
                )
            if trained.returncode or not draft.exists():
                _failed(archive).touch()
                raise OSError(f"not kept, so starts take longer: {_last_line(said)}")
            draft.rename(archive)


def _place() -> Path:
    """Named by what the JVM itself compares."""
    java = find_java()
    machine = sorted((java.home / "lib").rglob("libjvm.so"))
    facts = [f"{path} {path.stat().st_mtime_ns // 10**9} {path.stat().st_size}" for path in [*machine, *driver_class_path()]]
    return cache_folder() / "classes" / f"{hashlib.sha256(os.linesep.join(facts).encode()).hexdigest()[:16]}.jsa"


def _failed(archive: Path) -> Path:
    """There once it could not be made."""
    return archive.with_suffix(".failed")


def _spark_jars() -> list[Path]:
    found = importlib.util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (found and found.origin and str(Path(found.origin).parent)) or ""
    return list((Path(home) / "jars").resolve().glob("*.jar"))  # one archive, however one comes there


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip() and "warning" not in line]
    return lines[-1] if lines else "nothing was said"
