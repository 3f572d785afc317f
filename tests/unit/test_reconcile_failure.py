"""What Spark says of a reconciliation that it cannot make, in a few lines and with an exit code."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from app.cli.main import EXIT_CODES
from app.errors import AccessRefusedError, DependencyError
from app.pipeline.reconcile.failure import ReconcileError, told_by_spark

LONG = """An error occurred while calling o1.toArrow.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.run(DAGScheduler.scala:1)
Caused by: org.apache.kafka.common.errors.{name}: Not authorized to access topics: [cep.q]
\tat org.apache.kafka.Consumer.poll(Consumer.java:1)
"""


@pytest.mark.parametrize(
    ("name", "kind", "code"), [("TopicAuthorizationException", AccessRefusedError, 77), ("TimeoutException", DependencyError, 69)]
)
def test_refused_and_away_are_told_apart(name, kind, code):
    with pytest.raises(kind) as caught, told_by_spark("read what was published"):
        raise PySparkException(LONG.format(name=name))
    text = str(caught.value)
    assert text.startswith("Spark could not read what was published: ")
    assert "\tat " not in text
    assert "hint: " in text
    assert next(found for error, found in EXIT_CODES.items() if isinstance(caught.value, error)) == code


def test_what_is_told_in_words_already_stays():
    with pytest.raises(ReconcileError, match=r"^no$"), told_by_spark("match without shedding"):
        raise ReconcileError("no")
