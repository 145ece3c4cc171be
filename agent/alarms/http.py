"""HTTP API of a worker: its consoles' alarms, commands, metrics, health."""

import hmac
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import orjson
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent.alarms.commands import CommandRequest, console_of_alarm
from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.console import Console
from agent.alarms.core.inputs import Command, decode_input
from agent.alarms.messages import alarm_data
from agent.health.metrics import CONTENT_TYPE, exposition
from connectors.errors import RecordError
from connectors.timestamps import format_iso

Send = Callable[[str, Command], Awaitable[None]]
_MAX_BODY_BYTES = 16_384
_NO_ALARM = "no console of this worker has this alarm"


class AlarmApi:
    """With a token, everything but the health probes requires it."""

    def __init__(
        self,
        catalogue: Catalogue,
        consoles: Callable[[], Iterable[Console]],
        send: Send,
        registry: CollectorRegistry,
        *,
        token: str | None = None,
        ready: Callable[[], bool] = lambda: True,
        alive: Callable[[], bool] = lambda: True,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._catalogue, self._consoles, self._send = catalogue, consoles, send
        self._registry, self._token, self._clock_ns = registry, token, clock_ns
        self._ready, self._alive = ready, alive

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/livez", self.livez, methods=["GET"]),
                Route("/readyz", self.readyz, methods=["GET"]),
                Route("/metrics", self.metrics, methods=["GET"]),
                Route("/alarms", self.list, methods=["GET"]),
                Route("/alarms/{alarm:path}/{verb}", self.command, methods=["POST"]),
                Route("/alarms/{alarm:path}", self.show, methods=["GET"]),
            ]
        )

    async def livez(self, _: Request) -> Response:
        alive = self._alive()
        return JSONResponse({"status": "ok" if alive else "no progress"}, 200 if alive else 503)

    async def readyz(self, _: Request) -> Response:
        ready = self._ready()
        return JSONResponse({"status": "ok" if ready else "recovering"}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        return self._deny(request) or Response(exposition(self._registry), media_type=CONTENT_TYPE)

    async def list(self, request: Request) -> Response:
        if denied := self._deny(request):
            return denied
        wanted = request.query_params.get("state")
        found = [one for one in self._alarms().values() if wanted in (None, one["state"])]
        return JSONResponse(sorted(found, key=lambda one: str(one["alarm"])))

    async def show(self, request: Request) -> Response:
        if denied := self._deny(request):
            return denied
        found = self._alarms().get(request.path_params["alarm"])
        return JSONResponse(found) if found else JSONResponse({"error": _NO_ALARM}, 404)

    async def command(self, request: Request) -> Response:
        """202: the command is in the input log. Its outcome will be in the audit, under the id given here."""
        if denied := self._deny(request):
            return denied
        try:
            command = self._parse_command(await _body(request), request.path_params)
        except RecordError as error:
            return JSONResponse({"error": error.detail, "field": error.field}, 422)
        console = console_of_alarm(command.alarm, self._catalogue)
        if console is None:
            return JSONResponse({"error": f"no console shows {command.alarm}"}, 404)
        await self._send(console, command)
        return JSONResponse({"command": command.id, "console": console}, 202)

    def _parse_command(self, body: Mapping[str, Any], path: Mapping[str, str]) -> Command:
        """With the same checks as for commands in the input log."""
        head = {"id": "unassigned", "time": format_iso(self._clock_ns()), "kind": "command", **path}
        parsed = decode_input(orjson.dumps({**body, **head}))
        if not isinstance(parsed, Command):
            raise RecordError("malformed", "not a command")
        request = CommandRequest(parsed.verb, parsed.alarm, parsed.by, parsed.why, parsed.until_ns)
        return request.command(self._clock_ns())

    def _alarms(self) -> dict[str, dict[str, Any]]:
        every = ((console.name, alarm) for console in self._consoles() for alarm in console.alarms.values())
        return {alarm.id: alarm_data(console, self._catalogue, alarm) for console, alarm in every}

    def _deny(self, request: Request) -> Response | None:
        if self._token is None:
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return None
        return JSONResponse({"error": "bearer token required"}, 401, {"WWW-Authenticate": "Bearer"})


async def _body(request: Request) -> dict[str, Any]:
    raw = await request.body()
    try:
        body = orjson.loads(raw or b"{}") if len(raw) <= _MAX_BODY_BYTES else None
    except orjson.JSONDecodeError as error:
        raise RecordError("malformed", f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RecordError("malformed", f"not a JSON object of at most {_MAX_BODY_BYTES} bytes")
    return body
