"""The Faust application around the alarm state machine."""
