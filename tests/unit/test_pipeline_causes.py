"""A failed query is told in a few lines, without a stack trace."""

from app.pipeline.causes import cause

KAFKA = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)
Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [x]
\tat org.apache.kafka.clients.Metadata.run(Metadata.java:1)
\t... 17 more

Driver stacktrace:
\tat java.lang.Thread.run(Thread.java:840)
=== Streaming Query ===
Identifier: cep
\tat nowhere
"""
PYTHON = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/x/app/pipeline/stage.py", line 7, in stage
    raise ValueError("boom")
app.errors.SnapshotError: bucket 1: no state before batch 4

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/app/pipeline/stage.py", line 9, in stage
    stage()
    ^^^^^^^
ValueError: boom
 SQLSTATE: 38000
=== Streaming Query ===
"""


def test_a_failure_in_the_jvm_is_its_cause_and_a_hint():
    assert cause(KAFKA).splitlines() == [
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0",
        "Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [x]",
        "hint: the broker's access lists do not allow it",
    ]


def test_a_failure_in_python_is_the_exceptions_without_their_traces():
    told = cause(PYTHON)
    assert told.splitlines()[0] == "[PYTHON_EXCEPTION] An exception was thrown from the Python worker"
    assert "ValueError: boom" in told
    assert "SnapshotError: bucket 1: no state before batch 4" in told
    assert "Traceback" not in told
    assert 'File "' not in told


def test_a_failure_without_words_is_told_as_well():
    assert cause("").splitlines()[0] == "no reason is known"
