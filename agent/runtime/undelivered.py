"""Events that a webhook did not accept: written as dead letters to the other sinks, and counted."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import version

import orjson
import structlog

from agent.health.counters import Counters
from connectors.base import Sink
from connectors.errors import ConnectorError
from connectors.records import DEAD_LETTERS, Message
from connectors.webhook import Refused

log = structlog.get_logger()

REFUSED = "webhook_refused"
UNAVAILABLE = "webhook_unavailable"


class UndeliveredEvents:
    """Shared by several webhook sinks; the sink of the dead letters still gets one write at a time."""

    def __init__(self, sink: Sink, counters: Counters) -> None:
        self._sink, self._counters = sink, counters
        self._lock = asyncio.Lock()

    async def keep(self, refused: Sequence[Refused]) -> None:
        """Raises what the sink raises: an event that is stored nowhere must not be committed."""
        async with self._lock:
            await self._sink.write([undelivered_letter(each) for each in refused])
        for each in refused:
            self._counters.count_dead_letter(undelivered_reason(each), str(each.error))
        log.warning(
            "a webhook did not accept events; they are dead letters now",
            count=len(refused),
            last=str(refused[-1].error),
        )


def undelivered_reason(refused: Refused) -> str:
    return REFUSED if isinstance(refused.error, ConnectorError) else UNAVAILABLE


def undelivered_letter(refused: Refused) -> Message:
    """The event unchanged, with `dl_` headers. Partition and offset are those of the record that caused it.

    Its `dl_topic` is not a valid name of a Kafka topic, so `dead-letters replay` never takes it for a sensor record.
    """
    message = refused.message
    caused_by = orjson.loads(message.value or b"{}").get("input", {})
    ours = {
        "dl_reason": undelivered_reason(refused),
        "dl_detail": str(refused.error),
        "dl_field": "",
        "dl_exception": type(refused.error).__name__,
        "dl_topic": f"webhook:{message.stream}",
        "dl_partition": str(caused_by.get("partition", 0)),
        "dl_offset": str(caused_by.get("offset", 0)),
        "dl_timestamp_ms": str(_event_ms(message)),
        "dl_version": version("anchormoe-agent"),
    }
    headers = (*message.headers, *((name, text.encode()) for name, text in ours.items()))
    return Message(DEAD_LETTERS, message.key, message.value, headers)


def _event_ms(message: Message) -> int:
    """The event time, -1 when it has none."""
    times = [value.decode() for name, value in message.headers if name == "ce_time"]
    return int(datetime.fromisoformat(times[0]).timestamp() * 1000) if times else -1
