"""Reading a topic up to its end does not wait forever for a broker."""

import asyncio
from typing import Any

import pytest

from connectors.errors import ConnectorError
from connectors.kafka.bounded import read_batches, read_records
from connectors.kafka.cluster import Cluster
from connectors.records import Batch, Partition, Record

CLUSTER = Cluster("broker:9092")


class StuckSource:
    """Gives one batch; then the broker is silent."""

    exhausted = False
    closed = False

    def __init__(self, *_: Any) -> None:
        self._polls = 0
        StuckSource.closed = False

    async def open(self) -> None: ...

    async def poll(self, **_: Any) -> list[Batch]:
        self._polls += 1
        if self._polls > 1:
            await asyncio.Event().wait()
        return [Batch(Partition("events", 0), [Record(0, 1, b"pump-1", b"{}")])]

    async def close(self) -> None:
        StuckSource.closed = True


@pytest.fixture(autouse=True)
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.kafka.bounded.BoundedKafkaSource", StuckSource)


async def test_a_silent_broker_is_an_error_after_the_time_out() -> None:
    records = read_records(CLUSTER, "events", timeout_s=0.05)
    assert (await anext(records)).key == b"pump-1"
    with pytest.raises(ConnectorError, match=r"cannot read events at broker:9092 within 0\.05 s"):
        await anext(records)
    assert StuckSource.closed


async def test_the_time_out_does_not_cancel_what_the_caller_does_meanwhile() -> None:
    batches = read_batches(CLUSTER, "events", timeout_s=0.05)
    await anext(batches)
    await asyncio.sleep(0.1)
    with pytest.raises(ConnectorError, match="within"):
        await anext(batches)


async def test_a_caller_that_stops_early_closes_the_source() -> None:
    records = read_records(CLUSTER, "events")
    await anext(records)
    await records.aclose()
    assert StuckSource.closed
