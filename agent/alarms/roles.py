"""Which role each command needs, wherever it is sent from: the workers' API or the operator page. Pure."""

from collections.abc import Mapping

from agent.web.users import Role

ROLE_OF_VERB: Mapping[str, Role] = {
    "ack": "operate",
    "shelve": "operate",
    "unshelve": "operate",
    "comment": "operate",
    "out-of-service": "engineer",
    "in-service": "engineer",
    "reset": "engineer",
}
"""What hides an alarm without an end, or forgets that it was there, is not for everybody."""
