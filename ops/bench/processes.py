"""What a whole application costs: CPU time and memory of a process and of all that descends from it; and Spark clusters on one machine.

A Spark application is a family of processes (driver, JVMs, Python daemons, workers, owners) that come and go. `Family` adds up their CPU time such
that nothing is lost or counted twice, orphans included:

* a process that was reaped is part of its parent's "children" times, unless the parent ignores SIGCHLD (Spark's Python daemon does: the kernel
  then forgets the time of its workers). Of those the last sample stays in the sum, so what a killed worker loses is the time since then;
* whoever loses its parent (the daemon of a killed executor) comes to this process, because it asks for orphans (`adopt_orphans`).

`LOCAL_CLUSTER` and `spark_home` are what ``local-cluster[executors,cores,MB]`` needs with Spark from the package index: executors are JVMs of their
own, lost and replaced as in a real cluster, with all Python processes below them.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

PR_SET_CHILD_SUBREAPER = 36
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

LOCAL_CLUSTER: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.extraJavaOptions": "-XX:+UseParallelGC -XX:ParallelGCThreads=2",
    "spark.locality.wait": "0s",  # 3 s by default: a task waits as long for an executor that was lost
    "spark.deploy.maxExecutorRetries": "-1",  # 10 by default: as many kills without a success in between would end the application
}
"""Settings beside the application's own for ``local-cluster[executors,cores,MB]``, for runs that kill executors."""


def spark_home(folder: Path) -> Path:
    """Makes a ``SPARK_HOME`` of links to the installed Spark, and returns it; to be put into the environment before the JVM starts.

    Executors of ``local-cluster`` write below ``$SPARK_HOME/work`` whatever is set: without this, into the installed packages.
    The driver's environment (PYSPARK_PYTHON, PYTHONPATH, JAVA_HOME) reaches them because its JVM starts them; on a real cluster only
    ``spark.executorEnv.*`` does.
    """
    home = folder / "spark"
    home.mkdir(parents=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


def adopt_orphans() -> None:
    """Makes this process the parent of whoever loses one below it: a family stays a family when one in the middle is killed.

    Raises:
        OSError: the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class Process:
    """One look at one process.

    Attributes:
        pid: its number.
        parent: its parent's number at the time.
        started: clock ticks since boot; with the pid it names a process for good.
        own_ticks: CPU time of its threads, user and system.
        reaped_ticks: CPU time of its children that it waited for.
        forgets: it ignores SIGCHLD, so the time of its dead children is nowhere.
        zombie: dead, and not yet waited for.
    """

    pid: int
    parent: int
    started: int
    own_ticks: int
    reaped_ticks: int
    forgets: bool
    zombie: bool

    @property
    def ticks(self) -> int:
        """Own time and that of children waited for."""
        return self.own_ticks + self.reaped_ticks

    def command(self) -> str:
        """Its command line; empty when it is gone. Who is what: see `role`."""
        return _text(self.pid, "cmdline").replace("\0", " ").strip()

    def pss_bytes(self) -> int:
        """Memory, what it shares divided among the sharers; 0 when it is gone."""
        lines = _text(self.pid, "smaps_rollup").splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))

    def rss_bytes(self) -> int:
        """Memory, what it shares counted whole; 0 when it is gone."""
        fields = _text(self.pid, "statm").split()
        return int(fields[1]) * PAGE_BYTES if fields else 0


def role(process: Process) -> str:
    """What a process of a Spark application is: ``executor``, ``driver-jvm``, ``python`` (daemons and all they fork) or ``other``.

    A forked worker has its daemon's command line; who is the daemon tells the parent (an executor or the driver's JVM).
    """
    command = process.command()
    if "CoarseGrainedExecutorBackend" in command:
        return "executor"
    if "org.apache.spark.deploy.SparkSubmit" in command:
        return "driver-jvm"
    return "python" if "pyspark.worker" in command else "other"


class Family:
    """A process and its descendants, dead ones included. Sample often: see the module's text on who is forgotten."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._known: dict[tuple[int, int], Process] = {}
        self._forgotten_ticks = 0

    def sample(self) -> list[Process]:
        """Looks at everybody who is there now, and keeps the time of those who went."""
        found = {(process.pid, process.started): process for process in _descendants(self._root)}
        parents = {process.pid: process for process in self._known.values()}
        for place in self._known.keys() - found.keys():
            gone = self._known.pop(place)
            parent = parents.get(gone.parent)
            if parent is None or parent.forgets:  # nobody was told: the adopter, or one that does not listen
                self._forgotten_ticks += gone.ticks
        self._known = found
        return list(found.values())

    def cpu_s(self) -> float:
        """CPU time of the whole family up to now, in seconds; never falls but by what a killed process had not been asked for."""
        return (sum(process.ticks for process in self.sample()) + self._forgotten_ticks) / TICKS_PER_S

    def reap(self) -> None:
        """Waits for adopted processes that are dead (the root is the caller's own to wait for); their time stays in the sum."""
        for process in self.sample():
            if process.zombie and process.parent == os.getpid() and process.pid != self._root:
                os.waitpid(process.pid, os.WNOHANG)


def _descendants(root: int) -> Iterator[Process]:
    """The root and everybody below it, and the adopted ones of this process; never this process itself."""
    processes = {process.pid: process for process in _all()}
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    waiting = [root] if root != os.getpid() else []
    waiting += [pid for pid in children.get(os.getpid(), []) if pid != root]
    while waiting:
        pid = waiting.pop()
        if pid in processes:
            yield processes[pid]
            waiting.extend(children.get(pid, []))


def _all() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            process = _look(int(folder.name))
            if process is not None:
                yield process


def _look(pid: int) -> Process | None:
    stat = _text(pid, "stat")
    if not stat:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()  # from the third field of proc(5) on: a name may hold spaces
    user, system, reaped_user, reaped_system = map(int, fields[11:15])
    return Process(
        pid, int(fields[1]), int(fields[19]), user + system, reaped_user + reaped_system, _ignores_children(pid), fields[0] == "Z"
    )


def _ignores_children(pid: int) -> bool:
    for line in _text(pid, "status").splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGCHLD - 1) & 1)
    return False


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
