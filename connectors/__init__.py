"""Sources, sinks and window stores: Kafka, Redis, files, webhooks, simulator, memory. Bytes and records, no torch."""
