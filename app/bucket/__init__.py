"""Buckets: the unit of state and of work of matching, between decoding and delivery. Pure: no Spark, Kafka, clock or file.

The ingress side (`ingress`, `route`, `chunk`) decides which event goes to which bucket and packs it; the matching side (`bucket`, `hold`,
`composite`) holds events until the watermark, feeds them to the queries' engines in total order and names what they find.
`cep replay`, the tests and the owners share every line of it.
"""
