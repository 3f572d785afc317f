"""Spark's Python daemon with the stages imported: workers are forked from it, so that none of them imports numba and kernels again.

Set as ``spark.python.daemon.module``; Spark starts it as ``python -m app.pipeline.daemon pyspark.worker``.
"""

from pyspark.daemon import manager

from app.pipeline import ingress, stage

STAGES = (ingress, stage)

if __name__ == "__main__":
    manager()
