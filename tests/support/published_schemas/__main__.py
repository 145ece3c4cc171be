"""Writes the schemas again from the Go modules; needs go and the network."""

from tests.support.published_schemas import refresh

if __name__ == "__main__":
    refresh()
