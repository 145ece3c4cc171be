"""Methods compared on many data sets."""
