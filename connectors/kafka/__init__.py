"""Kafka through aiokafka: sources, a sink that waits for every acknowledgement, topics."""
