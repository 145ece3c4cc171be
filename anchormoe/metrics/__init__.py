"""Scores of predictions and of localization."""
