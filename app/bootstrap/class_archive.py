"""Spark's classes, parsed and verified once: Java's class data sharing maps them from a file, which takes a third off a start.

Made once per Java, Spark and connector (45 s of its own; beside the stream by what that leaves of the processors), for the driver's JVM, which is the only one in local mode; executors of the image have its class path
and map it as well. Nothing depends on it: without it, or where it does not fit, the JVM reads its jars as ever. Measurements: ``ops/decisions/0034-latency.md``.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from app.bootstrap.artifacts import connector_jars
from app.bootstrap.java import Java, find_java
from app.bootstrap.places import PROJECT, cache_folder
from app.bootstrap.progress import say, step
from app.bootstrap.turn import exclusive

_TRAINING = "app.pipeline.class_training"
_ALONE = {"SPARK_LOCAL_IP": "127.0.0.1"}
"""Else Spark looks its machine's name up, which nobody knows while an image is built."""
_LONGEST_S = 300
_LONGEST_BESIDE_S = 3600
_PAUSE_S = 0.1


def driver_class_path() -> list[Path]:
    """All jars of the driver, in an order that does not depend on the file system: an archive is for one order only."""
    return [*sorted(_spark_jars()), *connector_jars()]


def class_archive() -> Path | None:
    """The archive for this Java and these jars, if it was made; None as well where ``CEP_CLASS_ARCHIVE=off``."""
    archive = _place()
    return archive if not _switched_off() and archive.exists() else None


def make_class_archive(stopped: Callable[[], bool] = lambda: False, beside: Mapping[str, str] | None = None) -> None:
    """Make the archive, unless it is there, this Java cannot make one, or ``CEP_CLASS_ARCHIVE=off``.

    Args:
        stopped: whether somebody wants to end meanwhile; the next start makes it then.
        beside: the environment to make it in, by nothing but the time that others leave the processors idle; else this one's, at once.
    """
    if _switched_off():
        return
    archive = _place()
    if archive.exists() or _failed(archive).exists():
        return
    try:
        _make(archive, stopped, beside)
    except OSError as error:  # a slower start is no reason not to start
        say(f"! java classes: {error}")


def _switched_off() -> bool:
    return os.environ.get("CEP_CLASS_ARCHIVE") == "off"


def _make(archive: Path, stopped: Callable[[], bool], beside: Mapping[str, str] | None) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(archive.parent, os.W_OK):
        return
    with exclusive(archive.with_suffix(".lock")):
        if archive.exists() or _failed(archive).exists():
            return
        telling = contextlib.nullcontext() if beside is not None else step("java classes", "parsed once, kept in the cache")
        with telling, tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            draft, said = Path(folder) / "draft.jsa", Path(folder) / "said"
            code = _trained(draft, said, stopped, beside)
            if code is None:
                raise OSError("not made now: it was to end, or took too long")
            if code or not draft.exists():
                if not code:
                    _failed(archive).touch()  # all went well, and this Java wrote none: it never will
                raise OSError(f"not kept, so starts take longer: {_last_line(said)}")
            draft.rename(archive)


def _trained(draft: Path, said: Path, stopped: Callable[[], bool], beside: Mapping[str, str] | None) -> int | None:
    """The exit code of the training; None when it was ended."""
    deadline = time.monotonic() + (_LONGEST_S if beside is None else _LONGEST_BESIDE_S)
    environment = {**(os.environ if beside is None else beside), **_ALONE}
    with said.open("wb") as log:
        command = [sys.executable, "-m", _TRAINING, str(draft)]
        # a session of its own: Ctrl-C is for the application, which ends it then with all that it started
        training = subprocess.Popen(
            command, cwd=PROJECT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=environment
        )
        try:
            if beside is not None and hasattr(os, "SCHED_IDLE"):
                os.sched_setscheduler(training.pid, os.SCHED_IDLE, os.sched_param(0))
            while training.poll() is None and time.monotonic() < deadline and not stopped():
                time.sleep(_PAUSE_S)
            return training.poll()
        finally:
            if training.poll() is None:
                os.killpg(training.pid, signal.SIGKILL)
                training.wait()


def _place() -> Path:
    """Named by what the JVM itself compares."""
    java = find_java()
    machine = sorted((java.home / "lib").rglob("libjvm.so")) or [_real_java(java)]
    facts = [f"{path} {path.stat().st_mtime_ns // 10**9} {path.stat().st_size}" for path in [*machine, *driver_class_path()]]
    return cache_folder() / "classes" / f"{hashlib.sha256(os.linesep.join(facts).encode()).hexdigest()[:16]}.jsa"


def _real_java(java: Java) -> Path:
    """Where a launcher of our own stands for it (`app.bootstrap.java`), the executable that it starts."""
    named = re.findall(r"/\S+/bin/java", Path(java.command).read_text(errors="replace"))
    return Path(named[0]) if named and Path(named[0]).exists() else Path(java.command)


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
