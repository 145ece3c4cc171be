"""Builds the documentation site from what is in the repository: `make docs`."""
