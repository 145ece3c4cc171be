"""Hand-written vector instructions behind the numba backends."""
