"""The alarm state machine. Pure."""
