"""Spark's Python daemon with the ingress imported: workers are forked from it, so that none of them imports numba, pandas and kernels again.

It forks the keeper of the executor's owners as well (`app.owners.keeper`), before Spark knows of it: owners live as long as the executor.

Set as ``spark.python.daemon.module``; Spark starts it as ``python -m app.pipeline.daemon pyspark.worker``.
"""

import gc
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any


def without_archives(path: list[str]) -> list[str]:
    """Where modules are looked for, without Spark's own ``pyspark.zip``, which it puts first: modules in it have no bytecode, so every start would compile them (0.12 s of CPU instead of 0.57). Stays where no other pyspark is there."""
    others = [one for one in path if Path(one).name != "pyspark.zip"]
    return others if any(Path(one, "pyspark", "worker.py").exists() for one in others) else path


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)

import pandas as pd  # type: ignore[import-untyped]
import pyspark.daemon
import pyspark.worker

from app.owners.keeper import start_owners
from app.owners.server import serve
from app.pipeline import assemble
from shedding.lazy_kernel import DECLARED

IMPORTED = (assemble, pd, pyspark.worker)
EVERY_BATCH = ("app.asc.", "app.bucket.", "app.events.", "app.owners.")
"""Where kernels are that every application needs, whatever its queries: 0.1 s of CPU here, or in every worker and owner. The engines' 160 would be 0.9 s; owners load
those that their queries need when they first need them."""
_work = pyspark.daemon.worker


def worker(sock: Any, authenticated: bool) -> int:  # noqa: FBT001 - as Spark calls it
    """A task, or code 1 when Spark's side has gone meanwhile: a query that is stopped between tasks is no failure to be told."""
    try:
        return int(_work(sock, authenticated))
    except BrokenPipeError:
        return 1


def leave_memory_to_the_pod(environment: MutableMapping[str, str]) -> None:
    """Takes Spark's limit of workers away: ``spark.executor.pyspark.memory`` by the executor's cores, of *address space* (``RLIMIT_AS``).

    A worker has 0.6 GB of that when it is forked, of which it uses a tenth, so two cores and 1 GB would be no room for anything; and owners, whose memory
    that setting is meant for as well, are not limited by it at all. The pod's limit counts them all.
    """
    environment.pop("PYSPARK_EXECUTOR_MEMORY_MB", None)


def load_kernels() -> None:
    """Machine code that all forks have in common."""
    for kernel in DECLARED:
        if kernel.__module__.startswith(EVERY_BATCH):
            kernel.ready()


if __name__ == "__main__":
    leave_memory_to_the_pod(os.environ)
    load_kernels()
    gc.collect()
    gc.freeze()  # see app.pipeline.worker; and the workers' collections leave the daemon's pages shared
    start_owners(serve)
    pyspark.daemon.worker = worker
    pyspark.daemon.manager()
