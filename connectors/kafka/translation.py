"""aiokafka's exceptions in our words, at the edge."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, UnknownTopicOrPartitionError

from connectors.errors import ConnectorError


@contextmanager
def translated(what: str) -> Iterator[None]:
    """`what` says what was tried; the cause follows."""
    try:
        yield
    except CommitFailedError as error:
        raise ConnectorError(f"{what}: the group has rebalanced, another member may own the partition") from error
    except UnknownTopicOrPartitionError as error:
        raise ConnectorError(f"{what}: there is no such topic") from error
    except (KafkaError, IllegalStateError, OSError) as error:
        raise ConnectorError(f"{what}: {error}") from error
