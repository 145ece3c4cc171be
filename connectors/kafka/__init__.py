"""Kafka through aiokafka: a source with fenced hand-over, a sink that waits for every acknowledgement, topics."""
