"""What Spark is told of Python's memory is for the pod, not a limit of each worker."""

import resource

from app.owners.keeper import local_owners


def _limit_and_owners(_number):
    return resource.getrlimit(resource.RLIMIT_AS)[0], len(local_owners().ports)


def test_workers_are_not_held_to_their_share_of_the_executors_python_memory(spark):
    context = spark.sparkContext
    context.setLocalProperty("resource.pyspark.memory", "4096")  # MB: as `spark.executor.pyspark.memory` does for every job
    try:
        found = context.parallelize([0], 1).map(_limit_and_owners).collect()
    finally:
        context.setLocalProperty("resource.pyspark.memory", None)
    assert [limit for limit, _ in found] == [resource.RLIM_INFINITY]
    assert [owners > 0 for _, owners in found] == [True], "the worker is one of our daemon's"
