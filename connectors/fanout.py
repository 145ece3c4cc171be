"""Several sinks as one: a write is done when every one of them is done."""

import asyncio
from collections.abc import Sequence

from connectors.base import Sink
from connectors.records import Message


class FanoutSink:
    """`afterwards` are told when the others have it: whoever they notify finds it there."""

    def __init__(self, sinks: Sequence[Sink], *, afterwards: Sequence[Sink] = ()) -> None:
        self._sinks, self._afterwards = sinks, afterwards

    async def start(self) -> None:
        for sink in (*self._sinks, *self._afterwards):
            await sink.start()

    async def write(self, messages: Sequence[Message]) -> None:
        for sinks in (self._sinks, self._afterwards):
            await asyncio.gather(*(sink.write(messages) for sink in sinks))

    async def close(self) -> None:
        for sink in (*self._sinks, *self._afterwards):
            await sink.close()
