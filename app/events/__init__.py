"""Events as arrays: batches, Avro schema → columns, wire formats, registry, files of events."""
