"""Several sinks as one: a write is done when all of them are done."""

import asyncio
from collections.abc import Sequence

from connectors.base import Sink
from connectors.records import Message


class FanoutSink:
    """`afterwards` are written when the others are done: whoever they notify finds the messages there."""

    def __init__(self, sinks: Sequence[Sink], *, afterwards: Sequence[Sink] = ()) -> None:
        self._sinks, self._afterwards = sinks, afterwards

    async def start(self) -> None:
        for sink in (*self._sinks, *self._afterwards):
            await sink.start()

    async def write(self, messages: Sequence[Message]) -> None:
        """The first failure cancels the other writes and is raised alone."""
        for sinks in (self._sinks, self._afterwards):
            try:
                async with asyncio.TaskGroup() as group:
                    for sink in sinks:
                        group.create_task(sink.write(messages))
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None

    async def close(self) -> None:
        for sink in (*self._sinks, *self._afterwards):
            await sink.close()
