"""Named places where a process kills itself when told to, so that a crash between two steps can be tested.

`ANCHORMOE_FAULT_POINT=after_publish:3` ends the agent with SIGKILL at the third passing of that point. Nothing else
arms a point: no setting, no option. Unarmed, a passing costs one comparison.
"""

import os
import signal
from dataclasses import dataclass
from typing import Final

VARIABLE: Final = "ANCHORMOE_FAULT_POINT"

AFTER_PUBLISH: Final = "after_publish"
"""Events and dead letters are acknowledged; their states are not sent."""
AFTER_STATES: Final = "after_states"
"""States are acknowledged; nothing is stored."""
AFTER_RINGS: Final = "after_rings"
"""Changed rings are in the store; their header is not."""
AFTER_HEADER: Final = "after_header"
"""The whole checkpoint is in the store; its offset is not committed."""
AFTER_COMMIT: Final = "after_commit"
DURING_TAKEOVER: Final = "during_takeover"
"""A partition is claimed and its windows are read; nothing is polled yet."""

POINTS: Final = (AFTER_PUBLISH, AFTER_STATES, AFTER_RINGS, AFTER_HEADER, AFTER_COMMIT, DURING_TAKEOVER)


@dataclass(slots=True)
class _Armed:
    point: str
    passings_left: int


_armed: _Armed | None = None


def arm(text: str) -> None:
    """`point` or `point:passings`. Raises ValueError for anything else."""
    global _armed
    point, _, passings = text.partition(":")
    if point not in POINTS or not (passings or "1").isdecimal() or int(passings or 1) < 1:
        raise ValueError(f"{VARIABLE}={text}: write one of {', '.join(POINTS)}, and :N for the N-th passing")
    _armed = _Armed(point, int(passings or 1))


def hit(point: str) -> None:
    """Does not return when this is the passing that was asked for: not even `finally` runs after SIGKILL."""
    if _armed is None or _armed.point != point:
        return
    _armed.passings_left -= 1
    if _armed.passings_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
