"""Hand-written vector instructions for the numba backends, and the choice between numba and torch."""
