"""How much one record, one sensor, one flood of keys can cost, against the limits of the settings."""
