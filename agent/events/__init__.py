"""From classified windows to published events."""
