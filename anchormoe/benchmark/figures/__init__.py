"""The figures of the results: drawn by code from models that are fitted for them and from the ledgers."""
