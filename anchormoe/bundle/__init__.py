"""Model bundles on disk."""
