"""Real Kafka, Redis and Valkey servers for the tests, each owned by the test process that started it."""
