"""TLS connections that were closed without waiting for the other side's goodbye."""

import asyncio
from typing import Any


async def goodbyes_said(timeout_s: float = 40) -> None:
    """The last line of a test that was refused over TLS: returns when the loop has no open connection any more.

    aiokafka does not wait for the goodbye of a broker that refused it. Where a loop ends before that, the socket stays
    open until the collector finds it, whose warning is then the failure of whichever test is running.
    """
    loop: Any = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):  # asyncio itself waits 30 s for a goodbye
        while not all(transport.is_closing() for transport in list(loop._transports.values())):  # noqa: ASYNC110  # no event tells it
            await asyncio.sleep(0.01)
