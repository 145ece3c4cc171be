"""Sends a person's command to the input log and waits for its outcome in the audit."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agent.alarms.core.catalogue import FLOOD_RULE, Catalogue, split_alarm_id
from agent.alarms.core.inputs import Command, Verb, encode_input
from agent.contracts.alarms import AUDIT, INPUTS
from connectors.errors import ConnectorError
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.records import Message

_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command before it has an id and a time."""

    verb: Verb
    alarm: str
    by: str
    why: str = ""
    until_ns: int | None = None

    def command(self, now_ns: int) -> Command:
        return Command(uuid.uuid4().hex, now_ns, self.verb, self.alarm, self.by, self.why, self.until_ns)


def console_of_alarm(alarm: str, catalogue: Catalogue) -> str | None:
    """Where the alarm is shown; None where no console has such an asset."""
    rule, asset, _ = split_alarm_id(alarm)
    if rule == FLOOD_RULE:
        return asset if asset in catalogue.console_names() else None
    group = catalogue.rules[rule].group if rule in catalogue.rules else ""
    return catalogue.console_for(group, asset) if asset else None


async def send_command(
    cluster: Cluster, topics: Mapping[str, str], command: Command, console: str, *, timeout_s: float
) -> dict[str, Any]:
    """The command's record in the audit. Raises ConnectorError, also if no worker answers in time."""
    reader = TopicReader(cluster, ReadOptions(topics[AUDIT]))
    sink = KafkaSink(cluster, Delivery(topics))
    try:
        await reader.start()
        await sink.start()
        await sink.write([Message(INPUTS, console.encode(), encode_input(command))])
        async with asyncio.timeout(timeout_s):
            return await _find_audit_record(reader, command.id)
    except TimeoutError as error:
        raise ConnectorError(
            f"sent, but no alarm worker answered within {timeout_s:.0f} s; is `anchormoe-agent alarms` running?"
        ) from error
    finally:
        await sink.close()
        await reader.close()


async def _find_audit_record(reader: TopicReader, command: str) -> dict[str, Any]:
    while True:
        for batch in await reader.poll(max_records=500, timeout_s=_POLL_S):
            for record in batch.records:
                entry: dict[str, Any] = orjson.loads(record.value or b"{}")
                if entry.get("input") == command:
                    return entry
