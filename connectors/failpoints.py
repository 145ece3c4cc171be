"""Failpoints: named places where a process kills itself or raises, so that a crash or a bug there can be tested.

`ANCHORMOE_FAILPOINT=after_publish:3` ends the agent with SIGKILL at the third hit of that failpoint; `in_decoding:3`
raises there once. Only this environment variable arms one: there is no setting and no option. Unarmed, a hit costs one
comparison.
"""

import logging
import os
import signal
from dataclasses import dataclass
from typing import Final

log = logging.getLogger(__name__)

VARIABLE: Final = "ANCHORMOE_FAILPOINT"

AFTER_PUBLISH: Final = "after_publish"
"""Events and dead letters are acknowledged; the latest states are not sent yet."""
AFTER_STATES: Final = "after_states"
"""States are acknowledged; the checkpoint is not stored yet."""
AFTER_RINGS: Final = "after_rings"
"""Changed rings are in the store; their header is not yet."""
AFTER_HEADER: Final = "after_header"
"""The whole checkpoint is in the store; its offset is not committed yet."""
AFTER_COMMIT: Final = "after_commit"
"""The offset is committed."""
DURING_TAKEOVER: Final = "during_takeover"
"""A partition is claimed and its windows are loaded; nothing is polled yet."""

POINTS: Final = (AFTER_PUBLISH, AFTER_STATES, AFTER_RINGS, AFTER_HEADER, AFTER_COMMIT, DURING_TAKEOVER)
"""Where the process is killed."""

IN_DECODING: Final = "in_decoding"
IN_WINDOWING: Final = "in_windowing"
"""The ring buffers have changed."""
IN_MODEL: Final = "in_model"

RAISING: Final = (IN_DECODING, IN_WINDOWING, IN_MODEL)
"""Where it raises."""
RAISED: Final = "failpoint raised"
"""In the log, so that an experiment knows."""


class InjectedError(RuntimeError):
    """No such thing happens by itself."""


@dataclass(slots=True)
class _Armed:
    point: str
    hits_left: int


_armed: _Armed | None = None


def arm(text: str) -> None:
    """`point` or `point:N`, for its N-th hit. Raises ValueError for anything else."""
    global _armed
    point, _, hits = text.partition(":")
    if point not in (*POINTS, *RAISING) or not (hits or "1").isdecimal() or int(hits or 1) < 1:
        raise ValueError(f"{VARIABLE}={text}: use one of {', '.join((*POINTS, *RAISING))}; append :N for the N-th hit")
    _armed = _Armed(point, int(hits or 1))


def hit(point: str) -> None:
    """Kills the process if this is the armed hit; not even `finally` runs after SIGKILL."""
    if _armed is None or _armed.point != point:
        return
    _armed.hits_left -= 1
    if _armed.hits_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def raise_armed(point: str, *, together: int) -> None:
    """Raises InjectedError if this is the armed hit.

    Only where several records or windows are worked on `together`: tried again in parts, none of them is lost.
    """
    if _armed is None or _armed.point != point or together < 2:
        return
    _armed.hits_left -= 1
    if _armed.hits_left == 0:
        log.warning("%s: %s, %d together", RAISED, point, together)
        raise InjectedError(point)
