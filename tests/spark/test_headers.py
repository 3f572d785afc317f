"""Headers of records as reconciliations read them: foreign records are passed over, and ours stand last."""

from app.pipeline.reconcile.published import header

RECORDS = "headers array<struct<key: string, value: binary>>"


def test_a_header_is_the_last_of_its_name_and_null_where_there_is_none(spark):
    headers = [
        [("traceparent", b"00-1"), ("cep.reason", b"theirs"), ("cep.reason", b"late")],
        [("traceparent", b"00-1")],
        [],
        None,
        [("cep.reason", None)],
    ]
    rows = spark.createDataFrame([(one,) for one in headers], RECORDS).select(header("cep.reason").alias("told")).collect()
    assert [row.told for row in rows] == ["late", None, None, None, None]
