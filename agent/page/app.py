"""The page's routes: who may ask, what they get. Every request has passed the guard before."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from agent.alarms.roles import ROLE_OF_VERB
from agent.event_types import NOTICE
from agent.page import details
from agent.page.api import (
    Accepted,
    Alarms,
    Command,
    Events,
    Letters,
    Login,
    Rebuilt,
    Session,
)
from agent.page.history import Wanted
from agent.page.hub import Client, Hub, TooManyStreams, encode
from agent.page.openapi import openapi_document
from agent.page.sessions import Sessions, check_write
from agent.page.state import PageState, present_alarms
from agent.page.static_files import CSP, StaticFiles
from agent.page.stored_event import StoredEvent
from agent.web.connections import KEEP_OPEN
from agent.web.users import User

Body = TypeVar("Body", bound=BaseModel)
Rebuild = Callable[[StoredEvent], Awaitable[Rebuilt]]
SendCommands = Callable[[User, str, Command], Awaitable[Accepted]]
_REBUILD_S = 10.0
_MAX_MS = 8_640_000_000_000_000
"""Beyond it a browser has no dates."""


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the routes need. `send` is None where commands cannot be sent, `rebuild` where nothing can be read again,
    `max_shelving_s` where the plant has no alarm rules."""

    state: PageState
    hub: Hub
    sessions: Sessions
    work: details.WorkHealth = field(default_factory=details.NoWork)
    rebuild: Rebuild | None = None
    send: SendCommands | None = None
    max_shelving_s: float | None = None
    replay_command: str = ""
    no_letters: str = ""


class PageRoutes:
    def __init__(self, parts: PageParts, static: StaticFiles | None = None) -> None:
        self._parts, self._static = parts, static or StaticFiles()
        self._state, self._hub, self._sessions = parts.state, parts.hub, parts.sessions
        self._rebuilding = asyncio.Lock()
        self._version = version("anchormoe-agent")

    def routes(self) -> list[BaseRoute]:
        reading = {
            "/": self.index,
            "/s/{version}/{path:path}": self.static,
            "/api/session": self.session,
            "/api/fleet": self.fleet,
            "/api/stream": self.stream,
            "/api/asset": self.asset,
            "/api/timeline": self.timeline,
            "/api/events": self.events,
            "/api/event": self.event,
            "/api/rebuild": self.rebuild,
            "/api/period": self.period,
            "/api/trend": self.trend,
            "/api/alarms": self.alarms,
            "/api/health": self.health,
            "/api/letters": self.letters,
            "/api/openapi.json": self.openapi,
        }
        return [
            *(Route(path, page, methods=["GET"]) for path, page in reading.items()),
            Route("/session", self.log_in, methods=["POST"]),
            Route("/session", self.log_out, methods=["DELETE"]),
            Route("/api/alarms/{verb}", self.command, methods=["POST"]),
        ]

    async def index(self, request: Request) -> Response:
        return self._file(request, "index.html", {"Content-Security-Policy": CSP})

    async def static(self, request: Request) -> Response:
        """A file of another version would be kept forever under the wrong name."""
        if request.path_params["version"] != self._static.version:
            raise HTTPException(404, "not the version of these files")
        kept = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Security-Policy": CSP}
        return self._file(request, request.path_params["path"], kept)

    async def session(self, request: Request) -> Response:
        return self._answer_session(self._sessions.find(request))

    async def log_in(self, request: Request) -> Response:
        check_write(request)
        body = await _body(request, Login)
        user, id = await self._sessions.log_in(request, body.token)
        response = self._answer_session(user)
        self._sessions.set_cookie(request, response, id)
        return response

    async def log_out(self, request: Request) -> Response:
        check_write(request)
        self._sessions.log_out(request)
        response = self._answer_session(None if self._sessions.login_needed else self._sessions.find(request))
        self._sessions.set_cookie(request, response, "")
        return response

    async def fleet(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        state = self._state
        snapshot = state.fleet.snapshot(now_ms=state.clock_ms(), feed=state.feed(), reach=state.history.reach())
        body = encode(snapshot)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(gzip.compress(body, 1), media_type="application/json", headers=headers)
        return Response(body, media_type="application/json")

    async def stream(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        after = _number(request.headers.get("last-event-id"), "Last-Event-ID") or _parameter(request, "after")
        asset = request.query_params.get("asset")
        if asset is not None and self._state.fleet.row(asset) is None:
            raise HTTPException(404, "no such asset is known")
        try:
            key, allowed = self._sessions.key(request), lambda: self._sessions.find(request) is not None
            client = self._hub.connect(key, after, asset, allowed)
        except TooManyStreams as error:
            raise HTTPException(429, "too many streams; ask every 5 s instead", {"Retry-After": "5"}) from error
        keep_open = getattr(request.state, KEEP_OPEN, lambda: None)
        headers = {"X-Accel-Buffering": "no"}
        return _Stream(self._hub, client, keep_open, headers)

    async def asset(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        return _found(details.asset_detail(self._state, _text(request, "id")), "no such asset is known")

    async def timeline(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        from_ms, to_ms = _period(request)
        px = min(max(_parameter(request, "px") or 600, 1), 10_000)
        return _found(
            self._state.history.timeline(_text(request, "asset"), from_ms, to_ms, px), "no such asset is known"
        )

    async def events(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        from_ms, to_ms = _period(request)
        query = request.query_params
        wanted = Wanted(query.get("asset"), query.get("type"), query.get("before"), from_ms, to_ms)
        limit = min(max(_parameter(request, "limit") or 50, 1), 500)
        history = self._state.history
        found, more = history.find(wanted, limit)
        return _json(Events.model_construct(events=found, more=more, reach=history.reach()))

    async def event(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        return _json(details.event_detail(self._state, self._event(request)))

    async def rebuild(self, request: Request) -> Response:
        """One at a time: a replay needs a core, and the agent has other work. 429 and 503: ask again."""
        self._sessions.require(request, "view")
        event = self._event(request)
        if self._parts.rebuild is None:
            return _json(not_rebuilt(event, "this page cannot read the records again"))
        if self._rebuilding.locked():
            raise HTTPException(429, "another window is being rebuilt; try again", {"Retry-After": "2"})
        async with self._rebuilding:
            try:
                async with asyncio.timeout(_REBUILD_S):
                    return _json(await self._parts.rebuild(event))
            except TimeoutError as error:
                words = f"not done within {_REBUILD_S:.0f} s: the machine is busy, or the window is too far back"
                raise HTTPException(503, words, {"Retry-After": "2"}) from error

    async def period(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        from_ms, to_ms = _period(request)
        if from_ms is None or to_ms is None:
            raise HTTPException(422, "from and to are required, in milliseconds")
        steps = self._state.history.period(from_ms, to_ms)
        while (found := next(steps)) is None:  # noqa: ASYNC110  # nothing is waited for: it is the turn of others
            await asyncio.sleep(0)
        return _json(found)

    async def trend(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        return _json(self._state.history.trends.answer())

    async def alarms(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        state, parts = self._state, self._parts
        link, reason = state.alarm_link
        return _json(
            Alarms.model_construct(
                configured=parts.max_shelving_s is not None,
                link=link,
                reason=reason if parts.max_shelving_s is not None else "the plant has no alarm rules",
                now_ms=state.clock_ms(),
                max_shelving_s=parts.max_shelving_s,
                alarms=present_alarms(state),
                audit=[record for _, record in reversed(state.audit)],
            )
        )

    async def command(self, request: Request) -> Response:
        """202: the commands are in the input log. Their outcome will be in the audit, under the ids given here."""
        verb = request.path_params["verb"]
        if verb not in ROLE_OF_VERB:
            raise HTTPException(404, f"there is no such command; there are {', '.join(ROLE_OF_VERB)}")
        user = self._sessions.require(request, ROLE_OF_VERB[verb])
        body = await _body(request, Command)
        if verb == "shelve" and (not body.why.strip() or body.until is None):
            raise HTTPException(422, "shelving needs a reason (why) and an end (until)")
        if self._parts.send is None:
            raise HTTPException(409, "commands cannot be sent here: the plant has no alarm rules, or no Kafka sink")
        return _json(await self._parts.send(user, verb, body), 202)

    async def health(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        return _json(details.health(self._state, self._parts.work, len(self._hub)))

    async def letters(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        reason = request.query_params.get("reason")
        found = [one for one in reversed(self._state.letters) if reason in (None, one.reason)]
        parts = self._parts
        return _json(Letters.model_construct(letters=found, reason=parts.no_letters, replay=parts.replay_command))

    async def openapi(self, request: Request) -> Response:
        self._sessions.require(request, "view")
        return Response(orjson.dumps(openapi_document()), media_type="application/json")

    def _event(self, request: Request) -> StoredEvent:
        event = self._state.history.get(_text(request, "id"))
        if event is None:
            raise HTTPException(404, "the page does not hold this event (any more)")
        return event

    def _answer_session(self, user: User | None) -> Response:
        may = [verb for verb, role in ROLE_OF_VERB.items() if user is not None and user.name and user.may(role)]
        answer = Session.model_construct(
            user="" if user is None else user.name,
            role=None if user is None else user.role,
            login=self._sessions.login_needed,
            namespace="" if user is None else self._state.namespace,
            feed=self._state.kind,
            version=self._version,
            now_ms=self._state.clock_ms(),
            commands=may if self._parts.send is not None else [],
            notice=NOTICE,
        )
        return _json(answer)

    def _file(self, request: Request, name: str, headers: dict[str, str]) -> Response:
        found = self._static.get(name)
        if found is None:
            raise HTTPException(404, "there is no such file")
        headers = {
            **headers,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
            "Vary": "Accept-Encoding",
        }
        content = found.content
        if "gzip" in request.headers.get("accept-encoding", ""):
            content, headers["Content-Encoding"] = found.compressed, "gzip"
        return Response(content, headers={**headers, "Content-Type": found.content_type})


class _Stream(StreamingResponse):
    """Gives the client's place free however the connection ends, also before the first byte."""

    def __init__(self, hub: Hub, client: Client, keep_open: Callable[[], None], headers: dict[str, str]) -> None:
        self._hub, self._client = hub, client
        super().__init__(hub.stream(client, keep_open), media_type="text/event-stream", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.disconnect(self._client)


def not_rebuilt(event: StoredEvent, reason: str) -> Rebuilt:
    return Rebuilt(event=event.id, source="log", identical=None, reason=reason, difference=None)


def _json(model: BaseModel, status: int = 200) -> Response:
    return Response(encode(model), status, media_type="application/json")


def _found(model: BaseModel | None, otherwise: str) -> Response:
    if model is None:
        raise HTTPException(404, otherwise)
    return _json(model)


async def _body(request: Request, model: type[Body]) -> Body:
    """The guard has limited its size. Raises HTTPException, which names the field and does not repeat the value."""
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise HTTPException(422, f"{where or 'body'}: {first['msg']}") from error


def _text(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if not value:
        raise HTTPException(422, f"{name} is required")
    return value


def _parameter(request: Request, name: str) -> int | None:
    return _number(request.query_params.get(name), name)


def _number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 17 and int(text) <= _MAX_MS):
        raise HTTPException(422, f"{name} must be a whole number")
    return int(text)


def _period(request: Request) -> tuple[int | None, int | None]:
    from_ms, to_ms = _parameter(request, "from"), _parameter(request, "to")
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise HTTPException(422, "from must be before to")
    return from_ms, to_ms
