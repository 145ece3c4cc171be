"""Every test, and the real services they run on."""
