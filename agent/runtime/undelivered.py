"""Events that a receiver did not take, kept as dead letters by the other sinks, and counted."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import orjson
import structlog

from agent.dead_letters.letter import dead_letter_headers
from agent.health.counters import Counters
from connectors.base import Sink
from connectors.errors import ConnectorError
from connectors.records import DEAD_LETTERS, Message
from connectors.webhook import Refused

log = structlog.get_logger()

REFUSED = "webhook_refused"
UNAVAILABLE = "webhook_unavailable"


class UndeliveredEvents:
    """What a `WebhookSink` is given; several may share it, and the keeper still sees one write at a time."""

    def __init__(self, keeper: Sink, tally: Counters) -> None:
        self._keeper, self._tally = keeper, tally
        self._turn = asyncio.Lock()

    async def keep(self, refused: Sequence[Refused]) -> None:
        """Raises what the keeper raises: an event that nobody has must not be committed."""
        async with self._turn:
            await self._keeper.write([undelivered_letter(each) for each in refused])
        for each in refused:
            self._tally.dead_letters[undelivered_reason(each)] += 1
        log.warning(
            "events not taken by a webhook; kept as dead letters", count=len(refused), last=str(refused[-1].error)
        )


def undelivered_reason(refused: Refused) -> str:
    return REFUSED if isinstance(refused.error, ConnectorError) else UNAVAILABLE


def undelivered_letter(refused: Refused) -> Message:
    """The event as it was, with our `dl_` headers. Partition and offset are those of the record that made it.

    No Kafka topic can be called like its `dl_topic`, so `dead-letters replay` never takes it for a sensor record.
    """
    message = refused.message
    made_by = orjson.loads(message.value or b"{}").get("input", {})
    headers = dead_letter_headers(
        reason=undelivered_reason(refused),
        detail=str(refused.error),
        exception=type(refused.error).__name__,
        topic=f"webhook:{message.stream}",
        partition=made_by.get("partition", 0),
        offset=made_by.get("offset", 0),
        timestamp_ms=_event_ms(message),
    )
    return Message(DEAD_LETTERS, message.key, message.value, (*message.headers, *headers))


def _event_ms(message: Message) -> int:
    """The event's own time, -1 when it has none."""
    times = [value.decode() for name, value in message.headers if name == "ce_time"]
    return int(datetime.fromisoformat(times[0]).timestamp() * 1000) if times else -1
