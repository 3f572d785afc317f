"""A Spark application as processes (driver, JVMs, Python daemons, workers, owners), and Spark clusters on one machine.

`LOCAL_CLUSTER` and `spark_home` are what ``local-cluster[executors,cores,MB]`` needs with Spark from the package index: executors are JVMs of their
own, lost and replaced as in a real cluster, with all Python processes below them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

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


@dataclass(frozen=True, slots=True)
class Process:
    """One look at one process.

    Attributes:
        pid: its number.
        parent: its parent's number at the time.
    """

    pid: int
    parent: int

    def command(self) -> str:
        """Its command line; empty when it is gone."""
        return _text(self.pid, "cmdline").replace("\0", " ").strip()


def family_of(root: int) -> list[Process]:
    """A process and everybody below it, as they are now."""
    processes = {process.pid: process for process in _all()}
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        if pid in processes:
            found.append(processes[pid])
            waiting.extend(children.get(pid, []))
    return found


def _all() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _text(int(folder.name), "stat")):
            fields = stat[stat.rindex(")") + 2 :].split()  # from the third field of proc(5) on: a name may hold spaces
            yield Process(int(folder.name), int(fields[1]))


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
