"""Explanations as values, plots and pages."""
