"""A person's command on its way: into the input log, and the answer out of the audit."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agent.alarms.core.catalogue import FLOOD_RULE, Catalogue, parts_of
from agent.alarms.core.inputs import Command, Verb, encode_input
from agent.alarms.messages import AUDIT, INPUTS
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.records import Message

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """What somebody asked for, before it has a place in the log."""

    verb: Verb
    alarm: str
    by: str
    why: str = ""
    until_ns: int | None = None

    def command(self, now_ns: int) -> Command:
        return Command(uuid.uuid4().hex, now_ns, self.verb, self.alarm, self.by, self.why, self.until_ns)


def console_of(alarm: str, catalogue: Catalogue) -> str | None:
    """Where the alarm is shown; None where no console has such an asset."""
    rule, asset, _ = parts_of(alarm)
    if rule == FLOOD_RULE:
        return asset if asset in catalogue.console_names() else None
    group = catalogue.rules[rule].group if rule in catalogue.rules else ""
    return catalogue.console_for(group, asset) if asset else None


def message(command: Command, console: str) -> Message:
    return Message(INPUTS, console.encode(), encode_input(command))


async def send(
    cluster: Cluster, topics: Mapping[str, str], command: Command, console: str, *, timeout_s: float
) -> dict[str, Any]:
    """The audit's record of what came of it. Raises ConnectorError, also where no worker answers in time."""
    reader = TopicReader(cluster, ReadOptions(topics[AUDIT]))
    sink = KafkaSink(cluster, Delivery(topics))
    try:
        await reader.start()
        await sink.start()
        await sink.write([message(command, console)])
        async with asyncio.timeout(timeout_s):
            return await _answer(reader, command.id)
    except TimeoutError as error:
        raise ConnectorError(f"sent, but no alarm worker answered within {timeout_s:.0f} s") from error
    finally:
        await sink.close()
        await reader.close()


async def _answer(reader: TopicReader, command: str) -> dict[str, Any]:
    while True:
        for batch in await reader.poll(max_records=500, timeout_s=_POLL_S):
            for record in batch.records:
                entry: dict[str, Any] = orjson.loads(record.value or b"{}")
                if entry.get("input") == command:
                    return entry
