"""Events as arrays: batches, Avro schema → columns, wire formats, registry; rows and what they teach."""
