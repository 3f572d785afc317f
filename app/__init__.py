"""Complex event processing on Spark Structured Streaming, with load shedding under a latency bound."""

__version__ = "0.1.0"
