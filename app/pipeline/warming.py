"""Before the first batch: every executor starts its Python daemon, and with it its owners, and they are found."""

from __future__ import annotations

import math
import threading
import time

from pyspark.sql import SparkSession

from app.observe.logs import get_logger
from app.pipeline.batches import Batches
from app.pipeline.looking import owners_around

EXECUTORS_S = 30.0
"""How long to wait for all executors that were asked for; the application begins with those that are there, the others join later."""
PAUSE_S = 0.5

log = get_logger(__name__)


def find_owners(spark: SparkSession, batches: Batches, slots: int, stop: threading.Event) -> int:
    """Finds the owners of all executors; returns how many there are. The first executor is waited for as long as it takes: a cluster may add a machine for it.

    Args:
        spark: the session.
        batches: told of them.
        slots: owners per executor.
        stop: set when the application is to stop; then nobody is waited for.
    """
    wanted, deadline, found = executors(spark) * slots, time.monotonic() + EXECUTORS_S, 0
    while not stop.is_set():
        if around := owners_around(spark, stop, math.inf, wanted):
            found = batches.find(around)
        if found >= wanted or time.monotonic() >= deadline:
            log.info("owners found", owners=found, wanted=wanted)
            break
        stop.wait(PAUSE_S)
    return found


def executors(spark: SparkSession) -> int:
    """How many executors were asked for, at least one."""
    conf, master = spark.sparkContext.getConf(), spark.sparkContext.master
    if master.startswith("local-cluster"):
        return int(master.removeprefix("local-cluster[").split(",")[0])
    return 1 if master.startswith("local") else max(1, int(conf.get("spark.executor.instances", "1") or 1))
