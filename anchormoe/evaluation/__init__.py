"""Metrics, localization, benchmark tables and reports."""
