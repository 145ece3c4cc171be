"""Writes people's alarm commands into the alarm workers' input log; the outcome comes back in the audit."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from agent.alarms.commands import CommandRequest, console_of_alarm
from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.inputs import Command as AlarmCommand
from agent.alarms.core.inputs import decode_input, encode_input
from agent.page.api import Accepted, Command, SentCommand
from agent.web.users import User
from connectors.errors import ConnectorError, RecordError
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import Record
from connectors.timestamps import format_iso


class CommandSender:
    """Connects with the first command, so that a page that is only read needs no right to write."""

    def __init__(
        self, cluster: Cluster, topic: str, catalogue: Catalogue, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._cluster, self._topic, self._catalogue, self._clock_ns = cluster, topic, catalogue, clock_ns
        self._producer: RecordProducer | None = None

    async def __call__(self, user: User, verb: str, body: Command) -> Accepted:
        """`by` is the user of the session, whatever the body says."""
        sent = [await self._send(user, verb, alarm, body) for alarm in dict.fromkeys(body.alarms)]
        return Accepted(by=user.name, commands=sent)

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()

    async def _send(self, user: User, verb: str, alarm: str, body: Command) -> SentCommand:
        console = console_of_alarm(alarm, self._catalogue)
        if console is None:
            return SentCommand(alarm=alarm, command=None, error="no console shows this alarm")
        try:
            command = self._parse(user, verb, alarm, body)
            producer = await self._connected()
            record = Record(0, command.time_ns // 1_000_000, console.encode(), encode_input(command))
            await producer.write(self._topic, [record])
        except RecordError as error:
            return SentCommand(alarm=alarm, command=None, error=error.detail)
        except ConnectorError as error:
            self._producer = None
            return SentCommand(alarm=alarm, command=None, error=str(error))
        return SentCommand(alarm=alarm, command=command.id, error="")

    def _parse(self, user: User, verb: str, alarm: str, body: Command) -> AlarmCommand:
        """With the same checks as for commands in the input log. Raises RecordError."""
        until: Mapping[str, Any] = {} if body.until is None else {"until": body.until}
        head = {"id": "unassigned", "time": format_iso(self._clock_ns()), "kind": "command", "by": user.name}
        parsed = decode_input(orjson.dumps({**head, "verb": verb, "alarm": alarm, "why": body.why, **until}))
        if not isinstance(parsed, AlarmCommand):
            raise RecordError("malformed", "not a command")
        request = CommandRequest(parsed.verb, parsed.alarm, parsed.by, parsed.why, parsed.until_ns)
        return request.command(self._clock_ns())

    async def _connected(self) -> RecordProducer:
        if self._producer is None:
            producer = RecordProducer(self._cluster)
            await producer.start()
            self._producer = producer
        return self._producer
