"""aiokafka's exceptions in our words, at the edge."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    UnknownTopicOrPartitionError,
)

from connectors.base import Fenced
from connectors.errors import ConnectorError


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """`what` says what was tried; the cause follows."""
    try:
        yield
    except CommitFailedError as error:
        raise Fenced(f"{what}: the group has rebalanced, another member may own the partition") from error
    except UnknownTopicOrPartitionError as error:
        raise ConnectorError(f"{what}: there is no such topic") from error
    except (KafkaError, IllegalStateError, OSError) as error:
        raise ConnectorError(f"{what}: {describe_error(error)}") from error


def describe_error(error: Exception) -> str:
    """What a person can act on: a client that met no broker shows its address book instead."""
    if isinstance(error, KafkaConnectionError) and "bootstrap" in str(error):
        return "no broker answers there; start it, or correct the address or the security"
    return str(error) or type(error).__name__
