"""Columns → records of bytes: JSON lines of `cep replay`, Avro of files and topics, the texts that identities are hashes of. No match becomes an object."""
