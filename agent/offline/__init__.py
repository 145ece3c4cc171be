"""Offline tools on the same pipeline: replay, comparison, scoring, simulation."""
