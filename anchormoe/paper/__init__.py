"""The paper's network: MVRE, DPAR, RGC."""
