"""Kafka on our side: topics, client options, dead letters."""
