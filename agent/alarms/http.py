"""HTTP API of a worker: its consoles' alarms, commands, metrics, health."""

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
from agent.alarms.roles import ROLE_OF_VERB
from agent.health.metrics import CONTENT_TYPE, exposition
from agent.web.access import Access
from agent.web.server import make_app
from connectors.errors import RecordError
from connectors.timestamps import format_iso

Send = Callable[[str, Command], Awaitable[None]]
_NO_ALARM = "no console of this worker has this alarm"
_BODY_FIELDS = frozenset({"why", "until", "by"})


class AlarmApi:
    """Reading needs the role `view` where a token or users are configured; commands always need a user's token."""

    def __init__(
        self,
        catalogue: Catalogue,
        consoles: Callable[[], Iterable[Console]],
        send: Send,
        registry: CollectorRegistry,
        *,
        access: Access | None = None,
        ready: Callable[[], bool] = lambda: True,
        alive: Callable[[], bool] = lambda: True,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._catalogue, self._consoles, self._send = catalogue, consoles, send
        self._registry, self._access, self._clock_ns = registry, access or Access(), clock_ns
        self._ready, self._alive = ready, alive

    def app(self) -> Starlette:
        return make_app(
            [
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
        self._access.require(request, "view")
        return Response(exposition(self._registry), media_type=CONTENT_TYPE)

    async def list(self, request: Request) -> Response:
        self._access.require(request, "view")
        wanted = request.query_params.get("state")
        found = [one for one in self._alarms().values() if wanted in (None, one["state"])]
        return JSONResponse(sorted(found, key=lambda one: str(one["alarm"])))

    async def show(self, request: Request) -> Response:
        self._access.require(request, "view")
        found = self._alarms().get(request.path_params["alarm"])
        return JSONResponse(found) if found else JSONResponse({"error": _NO_ALARM}, 404)

    async def command(self, request: Request) -> Response:
        """202: the command is in the input log. Its outcome will be in the audit, under the id given here."""
        user = self._access.require(request, ROLE_OF_VERB.get(request.path_params["verb"], "operate"))
        try:
            command = self._parse_command(await _body(request, user.name), request.path_params, user.name)
        except RecordError as error:
            return JSONResponse({"error": error.detail, "field": error.field}, 422)
        console = console_of_alarm(command.alarm, self._catalogue)
        if console is None:
            return JSONResponse({"error": "no console shows this alarm"}, 404)
        await self._send(console, command)
        return JSONResponse({"command": command.id, "console": console, "by": user.name}, 202)

    def _parse_command(self, body: Mapping[str, Any], path: Mapping[str, str], by: str) -> Command:
        """With the same checks as for commands in the input log."""
        head = {"id": "unassigned", "time": format_iso(self._clock_ns()), "kind": "command", "by": by, **path}
        parsed = decode_input(orjson.dumps({**body, **head}))
        if not isinstance(parsed, Command):
            raise RecordError("malformed", "not a command")
        request = CommandRequest(parsed.verb, parsed.alarm, parsed.by, parsed.why, parsed.until_ns)
        return request.command(self._clock_ns())

    def _alarms(self) -> dict[str, dict[str, Any]]:
        every = ((console.name, alarm) for console in self._consoles() for alarm in console.alarms.values())
        return {alarm.id: alarm_data(console, self._catalogue, alarm) for console, alarm in every}


async def _body(request: Request, user: str) -> dict[str, Any]:
    """Raises RecordError. The guard has limited the size."""
    try:
        body = orjson.loads(await request.body() or b"{}")
    except orjson.JSONDecodeError as error:
        raise RecordError("malformed", "the body is not JSON") from error
    if not isinstance(body, dict):
        raise RecordError("malformed", "the body is not a JSON object")
    if unknown := body.keys() - _BODY_FIELDS:
        raise RecordError("malformed", f"unknown field; expected why and until, not {len(unknown)} others")
    if body.pop("by", user) != user:
        raise RecordError("malformed", f"by: comes from the token, which is {user}'s; leave it out", field="by")
    return body
