"""Where cases come from: UEA archive files, synthetic sets, users' own recordings."""
