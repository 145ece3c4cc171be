"""From data to a trained bundle."""
