"""Events that a webhook did not accept: stored as dead letters by the other sinks, and counted."""

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
from connectors.webhook import UndeliveredMessage

log = structlog.get_logger()

REFUSED = "webhook_refused"
UNAVAILABLE = "webhook_unavailable"


class UndeliveredEvents:
    """Takes what webhook sinks could not deliver. Several sinks may share it: it writes one batch at a time."""

    def __init__(self, keeper: Sink, counters: Counters) -> None:
        self._keeper, self._counters = keeper, counters
        self._lock = asyncio.Lock()

    async def keep(self, undelivered: Sequence[UndeliveredMessage]) -> None:
        """Raises what the other sinks raise: the input of an event that no sink has must not be committed."""
        async with self._lock:
            await self._keeper.write([undelivered_letter(each) for each in undelivered])
        for each in undelivered:
            self._counters.count_dead_letter(undelivered_reason(each), str(each.error))
        log.warning(
            "webhook did not accept events; stored as dead letters",
            count=len(undelivered),
            last=str(undelivered[-1].error),
        )


def undelivered_reason(undelivered: UndeliveredMessage) -> str:
    return REFUSED if isinstance(undelivered.error, ConnectorError) else UNAVAILABLE


def undelivered_letter(undelivered: UndeliveredMessage) -> Message:
    """The event unchanged, with `dl_` headers. Partition and offset are those of the record that made it due.

    Its `dl_topic` is not a possible name of a Kafka topic, so `dead-letters replay` never takes it for a sensor record.
    """
    message = undelivered.message
    made_by = orjson.loads(message.value or b"{}").get("input", {})
    headers = dead_letter_headers(
        reason=undelivered_reason(undelivered),
        detail=str(undelivered.error),
        exception=type(undelivered.error).__name__,
        topic=f"webhook:{message.stream}",
        partition=made_by.get("partition", 0),
        offset=made_by.get("offset", 0),
        timestamp_ms=_event_ms(message),
    )
    return Message(DEAD_LETTERS, message.key, message.value, (*message.headers, *headers))


def _event_ms(message: Message) -> int:
    """The event's own time; −1 if it has none."""
    times = [value.decode() for name, value in message.headers if name == "ce_time"]
    return int(datetime.fromisoformat(times[0]).timestamp() * 1000) if times else -1
