"""Ctrl-C for the offline commands: the first asks for an orderly end, the second ends at once, without a traceback."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from agent.cli.errors import fail

Result = TypeVar("Result")


def run_interruptibly(work: Coroutine[Any, Any, Result]) -> Result:
    """For work that listens to signals itself (`agent.signals`)."""
    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        fail("ended at once by a second signal; what was written may be incomplete")
