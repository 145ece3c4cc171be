"""A compacted topic that is closed while somebody reads it."""

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError

from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.compacted_log import CompactedLog
from connectors.kafka.tolerant import is_undecodable

AT = TopicPartition("activations", 0)


class ClosingConsumer:
    """Its log is closed while it is asked for the end of the topic."""

    def __init__(self, log: CompactedLog) -> None:
        self._log, self._stopped = log, False

    def assignment(self) -> set[Any]:
        return {AT}

    async def end_offsets(self, partitions: Any) -> dict[Any, int]:
        await self._log.close()
        return {AT: 1}

    async def position(self, at: Any) -> int:
        if self._stopped:
            raise ConsumerStoppedError
        return 0

    async def stop(self) -> None:
        self._stopped = True


async def test_a_log_that_is_closed_while_it_is_read_raises_what_a_follower_expects() -> None:
    log = CompactedLog(Cluster("127.0.0.1:1"), "activations")
    log._consumer = ClosingConsumer(log)
    with pytest.raises(ConnectorError, match="activations"):
        await log.read()
    with pytest.raises(ConnectorError, match="activations is closed"):
        await log.read()


def test_a_consumer_that_was_stopped_does_not_mean_that_a_record_cannot_be_decoded() -> None:
    assert not is_undecodable(ConsumerStoppedError())
