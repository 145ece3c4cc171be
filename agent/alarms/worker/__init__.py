"""The Faust worker around the state machine."""
