"""The same pipeline without a cluster: replay, comparison, scoring, simulation."""
