"""Sends a person's command to an alarm worker and waits for its outcome in the audit."""

import asyncio
import ssl
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from agent.alarms.core.catalogue import FLOOD_RULE, Catalogue, split_alarm_id
from agent.alarms.core.inputs import Command, Verb
from agent.alarms.received import parse_audit
from agent.contracts.alarms import AUDIT
from connectors.errors import ConnectorError, RecordError
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.timestamps import format_iso

_POLL_S = 0.5
_REQUEST_S = 20.0
_MAX_ANSWER_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """A command before it has an id and a time."""

    verb: Verb
    alarm: str
    by: str = ""
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


@dataclass(frozen=True, slots=True)
class AlarmServer:
    """Where commands are sent, and the token that says who sends them."""

    url: str
    token: str = field(repr=False)


async def send_command(
    server: AlarmServer, cluster: Cluster, topics: Mapping[str, str], request: CommandRequest, *, timeout_s: float
) -> dict[str, Any]:
    """The command's record in the audit. Raises ConnectorError, also if the outcome is not known in time."""
    reader = TopicReader(cluster, ReadOptions(topics[AUDIT]))
    try:
        await reader.start()
        command = await post_command(server, request)
        async with asyncio.timeout(timeout_s):
            return await _find_audit_record(reader, command)
    except TimeoutError as error:
        raise ConnectorError(f"sent, but no alarm worker had applied it within {timeout_s:.0f} s") from error
    finally:
        await reader.close()


async def post_command(server: AlarmServer, request: CommandRequest) -> str:
    """The command's id. `request.by` is not sent: the token says who it is. Raises ConnectorError."""
    path = f"/alarms/{quote(request.alarm, safe='')}/{request.verb}"
    until = {} if request.until_ns is None else {"until": format_iso(request.until_ns)}
    headers = {"Authorization": f"Bearer {server.token}", "Accept-Encoding": "identity"}
    try:
        async with (
            httpx.AsyncClient(verify=ssl.create_default_context(), trust_env=False, timeout=_REQUEST_S) as client,
            asyncio.timeout(_REQUEST_S),
            client.stream("POST", server.url + path, json={"why": request.why, **until}, headers=headers) as response,
        ):
            answer = await _read_answer(response)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ConnectorError(f"{server.url}: {reason}; is `anchormoe-agent alarms` running?") from error
    if response.status_code != 202 or not isinstance(answer.get("command"), str):
        raise ConnectorError(f"refused ({response.status_code}): {answer.get('error', 'not an alarm worker')}")
    return str(answer["command"])


async def _read_answer(response: httpx.Response) -> dict[str, Any]:
    """Raises ValueError for what no alarm worker answers."""
    body = b""
    async for part in response.aiter_raw():
        body += part
        if len(body) > _MAX_ANSWER_BYTES:
            raise ValueError("the answer is too long")
    answer = orjson.loads(body or b"{}")
    return answer if isinstance(answer, dict) else {}


async def _find_audit_record(reader: TopicReader, command: str) -> dict[str, Any]:
    while True:
        for batch in await reader.poll(max_records=500, timeout_s=_POLL_S):
            for record in batch.records:
                with suppress(RecordError):  # somebody else's record
                    entry = parse_audit(record.value)
                    if entry["input"] == command:
                        return entry
