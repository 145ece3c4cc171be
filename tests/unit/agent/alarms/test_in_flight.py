"""A record is acknowledged when everything sent for it is; a failed write ends the worker."""

import asyncio

import pytest

from agent.alarms.worker.app import InFlight
from connectors.errors import ConnectorError


class FaustEvent:
    def __init__(self) -> None:
        self.acknowledged = False

    def ack(self) -> None:
        self.acknowledged = True


def sent(count: int) -> "list[asyncio.Future[None]]":
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def test_a_record_is_acknowledged_after_its_last_write() -> None:
    record, writes = FaustEvent(), sent(2)
    await InFlight(10).add(record, writes)
    writes[0].set_result(None)
    await asyncio.sleep(0.01)
    assert not record.acknowledged
    writes[1].set_result(None)
    await asyncio.sleep(0.01)
    assert record.acknowledged


async def test_a_record_without_writes_is_acknowledged() -> None:
    record = FaustEvent()
    await InFlight(10).add(record, [])
    await asyncio.sleep(0.01)
    assert record.acknowledged


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_failed_write_is_raised_to_the_watcher_and_the_record_is_not_acknowledged(cancelled: bool) -> None:
    in_flight, record, [write] = InFlight(10), FaustEvent(), sent(1)
    async with asyncio.TaskGroup() as group:
        watcher = group.create_task(_raised_by(in_flight))
        await in_flight.add(record, [write])
        if cancelled:
            write.cancel()
        else:
            write.set_exception(OSError("broker gone"))
    assert "did not acknowledge" in str(watcher.result())
    assert not record.acknowledged


async def test_at_most_so_many_records_are_in_flight() -> None:
    in_flight, [first] = InFlight(1), sent(1)
    await in_flight.add(FaustEvent(), [first])
    async with asyncio.TaskGroup() as group:
        second = group.create_task(in_flight.add(FaustEvent(), []))
        await asyncio.sleep(0.01)
        assert not second.done()
        first.set_result(None)


async def _raised_by(in_flight: InFlight) -> ConnectorError:
    with pytest.raises(ConnectorError) as raised:
        async with asyncio.timeout(60):
            await in_flight.watch()
    return raised.value
