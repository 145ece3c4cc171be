"""The outside world as bytes and records: Kafka, Redis, files, simulator, memory. Never imports torch."""
