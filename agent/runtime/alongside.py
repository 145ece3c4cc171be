"""Work with helpers beside it: whichever side fails stops the other, and the caller sees one plain error."""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

import structlog

from agent.errors import SettingsError
from anchormoe.errors import DataError, ModelError
from connectors.errors import ConnectorError

log = structlog.get_logger()

Result = TypeVar("Result")

_OURS = (SettingsError, ConnectorError, ModelError, DataError)


async def run_with_helpers(work: Coroutine[Any, Any, Result], helpers: Collection[Coroutine[Any, Any, None]]) -> Result:
    """The work's result; helpers run as long as it does. Never raises an ExceptionGroup."""
    failure = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(helper) for helper in helpers]
            result = await work
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as failures:
        failure = first_failure(failures)
    # Raised out here, so that it keeps its own cause and context.
    if failure is not None:
        raise failure
    return result


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of our errors, which a user can read; else the first of all. The others are logged, not lost."""
    leaves = _leaves(failures)
    chosen = next((error for error in leaves if isinstance(error, _OURS)), leaves[0])
    for other in leaves:
        if other is not chosen:
            log.error("failed at the same time", exc_info=other)
    return chosen


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
