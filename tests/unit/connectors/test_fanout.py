"""Several sinks as one."""

import asyncio
from collections.abc import Sequence

import pytest

from connectors.errors import ConnectorError
from connectors.fanout import FanoutSink
from connectors.memory import MemorySink
from connectors.records import EVENTS, Message

EVENT = Message(EVENTS, b"pump-1", b"{}")


class BrokenSink(MemorySink):
    async def write(self, messages: Sequence[Message]) -> None:
        raise ConnectorError("the disk is full")


class SlowSink(MemorySink):
    cancelled = False

    async def write(self, messages: Sequence[Message]) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_every_sink_gets_every_message_and_notifiers_come_last() -> None:
    class Notifier(MemorySink):
        seen: Sequence[int] = ()

        async def write(self, messages: Sequence[Message]) -> None:
            self.seen = [len(first.messages), len(second.messages)]

    first, second, notifier = MemorySink(), MemorySink(), Notifier()
    sink = FanoutSink([first, second], afterwards=[notifier])
    await sink.start()
    await sink.write([EVENT])
    await sink.close()
    assert (list(first.messages), list(second.messages)) == ([EVENT], [EVENT])
    assert notifier.seen == [1, 1]


async def test_the_first_failure_is_raised_alone_and_no_other_write_goes_on() -> None:
    slow, notifier = SlowSink(), MemorySink()
    sink = FanoutSink([slow, BrokenSink()], afterwards=[notifier])
    await sink.start()
    async with asyncio.timeout(30):
        with pytest.raises(ConnectorError, match="the disk is full"):
            await sink.write([EVENT])
    assert slow.cancelled
    assert not notifier.messages
