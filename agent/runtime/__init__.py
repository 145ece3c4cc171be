"""The loop: poll, ingest, classify, publish, checkpoint, commit."""
