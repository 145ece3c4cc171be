"""Dead letters: how they are written, read back and replayed."""
