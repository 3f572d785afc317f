"""The processes that hold buckets: one per core of an executor, forked from its Python daemon. They know no Spark; the driver tells them what to do."""
