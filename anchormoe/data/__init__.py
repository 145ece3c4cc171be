"""Data sets: UEA archive files, synthetic sets, users' recordings."""
