"""Spark's Python daemon with the stages imported: workers are forked from it, so that none of them imports numba, pandas and kernels again.

Set as ``spark.python.daemon.module``; Spark starts it as ``python -m app.pipeline.daemon pyspark.worker``.
"""

import gc

import pandas as pd  # type: ignore[import-untyped]
import pyspark.worker
from pyspark.daemon import manager

from app.pipeline import assemble

IMPORTED = (assemble, pd, pyspark.worker)

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # see app.pipeline.worker; and the workers' collections leave the daemon's pages shared
    manager()
