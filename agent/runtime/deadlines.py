"""Ends and hand-overs that take their time, and no more."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from connectors.errors import ConnectorError

log = structlog.get_logger()


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """Raises ConnectorError when the time is over: what was not committed is read again."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        reason = f"{what} took longer than {seconds:g} s; what was not committed is read again"
        raise ConnectorError(reason) from error


async def close_within(seconds: float, name: str, close: Callable[[], Awaitable[None]]) -> None:
    """What is not safe by now is not committed either: a part that cannot be closed is told, not waited for."""
    try:
        async with asyncio.timeout(seconds):
            await close()
    except (TimeoutError, ConnectorError, OSError) as error:
        log.warning("left behind without an orderly end", part=name, reason=str(error) or "no end in time")
