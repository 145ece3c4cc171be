"""Waiting for processes and their logs, which ring no bell."""

import asyncio
import time
from collections.abc import Callable

_LOOK_EVERY_S = 0.05


async def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """False when the time was over first."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK_EVERY_S)
    return True
