"""The kinds of events, their published names, and which states count as normal. Pure; everything may import it."""

from typing import Final, Literal

Kind = Literal[
    "state",
    "gap",
    "channel_dropout",
    "channel_back",
    "sensor_unhealthy",
    "sensor_healthy",
    "no_data",
    "clock_back",
    "model_refused",
    "log_replaced",
    "lost_records",
]
"""Every kind of event; `agent.contracts` has a model for each."""
STATE: Final = "state"
GAP: Final = "gap"
CHANNEL_DROPOUT: Final = "channel_dropout"
CHANNEL_BACK: Final = "channel_back"
SENSOR_UNHEALTHY: Final = "sensor_unhealthy"
SENSOR_HEALTHY: Final = "sensor_healthy"
NO_DATA: Final = "no_data"
CLOCK_BACK: Final = "clock_back"
MODEL_REFUSED: Final = "model_refused"
LOG_REPLACED: Final = "log_replaced"
LOST_RECORDS: Final = "lost_records"
TYPE_PREFIX = "anchormoe."
EVENT_SCHEMA_V1 = "urn:anchormoe-agent:event:v1"
"""What topics may still hold: states with patches. Other kinds are the same in both versions."""
EVENT_SCHEMA = "urn:anchormoe-agent:event:v2"
STATE_SCHEMA = "urn:anchormoe-agent:state:v1"
NORMAL_STATES = frozenset({"normal", "healthy", "ok", "good", "stable", "0"})
"""Names that people give to the state that is not a fault, in lower case."""
NOTICE = "Decision support only: not a medical device, not a primary alarm."


def is_normal_state(state: str) -> bool:
    """By its name alone: a bundle does not say which of its classes are faults."""
    return state.lower() in NORMAL_STATES
