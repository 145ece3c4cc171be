"""From explained events to few, explained alarms: a pure state machine in a thin Faust shell, by ISA-18.2."""
