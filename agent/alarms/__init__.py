"""Alarms by the rules of ISA-18.2 from explained events: a pure state machine, and a Faust worker around it."""
