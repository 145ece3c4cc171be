"""Model bundles in the running agent: which one is active when, loading, classification."""
