"""Which states are published: on change, all of them, or on change and at regular times. Pure."""

from dataclasses import dataclass
from typing import Literal

Policy = Literal["changes", "all", "changes+heartbeat"]
Extra = Literal["never", "changes", "always"]


@dataclass(frozen=True, slots=True)
class Emission:
    """Heartbeats are at window ends that are multiples of `heartbeat_steps` (0: none), whenever the agent started."""

    policy: Policy = "changes"
    heartbeat_steps: int = 0
    why_not: Extra = "changes"
    similar: Extra = "changes"

    def publishes(self, *, changed: bool, end: int) -> bool:
        """Whether the state of the window that ends at index `end` is published."""
        if changed or self.policy == "all":
            return True
        return self.policy == "changes+heartbeat" and self.heartbeat_steps > 0 and end % self.heartbeat_steps == 0

    def explains_margin(self, *, changed: bool) -> bool:
        """Whether a published state says why it is not the runner-up."""
        return _asks(self.why_not, changed=changed)

    def shows_similar(self, *, changed: bool) -> bool:
        """Whether a published state shows TRAIN segments that are like its evidence."""
        return _asks(self.similar, changed=changed)


def _asks(extra: Extra, *, changed: bool) -> bool:
    return extra == "always" or (changed and extra == "changes")
