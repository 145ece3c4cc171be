"""Several sinks as one: a write is done when every one of them is done."""

import asyncio
from collections.abc import Sequence

from connectors.records import Message
from connectors.seams import Sink


class FanoutSink:
    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks

    async def start(self) -> None:
        for sink in self._sinks:
            await sink.start()

    async def write(self, messages: Sequence[Message]) -> None:
        await asyncio.gather(*(sink.write(messages) for sink in self._sinks))

    async def close(self) -> None:
        for sink in self._sinks:
            await sink.close()
