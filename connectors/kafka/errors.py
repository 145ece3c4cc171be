"""Translates aiokafka's exceptions into ours."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    UnknownTopicOrPartitionError,
)

from connectors.base import Fenced
from connectors.errors import ConnectorError

Answer = TypeVar("Answer")

_RETRY_FOR_S = 20.0
_PAUSE_S = 0.3


async def retry(request: Callable[[], Awaitable[Answer]]) -> Answer:
    """Again while Kafka says that it may soon work: a leader or a coordinator moves from one broker to another."""
    deadline_s = asyncio.get_running_loop().time() + _RETRY_FOR_S
    while True:
        try:
            return await request()
        except KafkaError as error:
            if not error.retriable or asyncio.get_running_loop().time() >= deadline_s:
                raise
        await asyncio.sleep(_PAUSE_S)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """`what` says what failed; the cause follows."""
    try:
        yield
    except CommitFailedError as error:
        raise Fenced(f"{what}: the group has rebalanced, another member may own the partition") from error
    except UnknownTopicOrPartitionError as error:
        raise ConnectorError(f"{what}: there is no such topic") from error
    except (KafkaError, IllegalStateError, ConsumerStoppedError, OSError) as error:
        raise ConnectorError(f"{what}: {describe_error(error)}") from error


def describe_error(error: Exception) -> str:
    """One line that a person can act on, where aiokafka shows a list of addresses or nothing."""
    if isinstance(error, KafkaConnectionError) and "bootstrap" in str(error):
        return "no broker answers there; start it, or correct the address or the security"
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__
