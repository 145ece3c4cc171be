"""What every request to every server must fulfil, before any route sees it: host, origin, content type, size, time.

A page of another site can make a browser send requests to the loopback interface, and can give its own name the address
127.0.0.1 (DNS rebinding). Neither reaches a route: the host must be one of ours, and a browser's request must come from
a page of this very server.
"""

import asyncio
import ipaddress
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import orjson
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger()

MAX_BODY_BYTES = 16_384
_BODY_S = 5.0
_HANDLING_S = 15.0
_LOG_EVERY_S = 10.0
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)(?::(\d{1,5}))?", re.ASCII)
_SINGLE = (b"host", b"origin", b"content-type", b"content-length", b"transfer-encoding", b"authorization")
_READING = ("GET", "HEAD")
_SAME_SITE = (b"same-origin", b"none")
_STREAM = b"text/event-stream"
_NAVIGATION = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
_JSON = re.compile(rb"application/json(?:\s*;\s*charset=\"?utf-8\"?)?", re.IGNORECASE)
_SAFE_HEADERS: Sequence[tuple[bytes, bytes]] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """`reason` is a label of the counter, `words` are for the caller."""

    status: int
    reason: str
    words: str


@dataclass(slots=True)
class Refusals:
    """How many requests were refused, by reason; one log line per reason in ten seconds."""

    counts: Counter[str] = field(default_factory=Counter)
    _logged_s: dict[str, float] = field(default_factory=dict)

    def add(self, refusal: Refusal, scope: Scope) -> None:
        self.counts[refusal.reason] += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_s.get(refusal.reason, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged_s[refusal.reason] = now_s
            client = (scope.get("client") or ("?",))[0]
            log.warning("request refused", reason=refusal.reason, client=client, count=self.counts[refusal.reason])


class Guard:
    """An ASGI application around another one. `hosts`: names by which the server may be called, besides loopback."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = (), refusals: Refusals | None = None) -> None:
        self._app, self._hosts = app, frozenset(_normalise(name) for name in hosts)
        self.refusals = refusals or Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served")
        answer = _Answer(send)
        refusal = check_request(scope, self._hosts) or await self._handle(scope, receive, answer)
        if refusal is not None:
            self.refusals.add(refusal, scope)
            await answer.refuse(refusal)

    async def _handle(self, scope: Scope, receive: Receive, answer: "_Answer") -> Refusal | None:
        body = b"" if scope["method"] in _READING else await _read_body(receive)
        if isinstance(body, Refusal):
            return body
        try:
            async with asyncio.timeout(_HANDLING_S) as limit:
                answer.limit = limit
                await self._app(scope, _replay(body, receive), answer.send)
        except TimeoutError:
            if answer.started:
                raise
            return Refusal(503, "timeout", "not done in time; it may still take effect")
        return None


def check_request(scope: Scope, hosts: Collection[str]) -> Refusal | None:
    """What is wrong with the head of a request. Pure."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    single = {name: value for name, value in headers if name in _SINGLE or name.startswith(b"sec-fetch-")}
    counted = Counter(name for name, _ in headers)
    if any(counted[name] > 1 for name in _SINGLE):
        return Refusal(400, "repeated_header", "a header that may come once came twice")
    return (
        _check_host(single, scope, hosts)
        or (None if _opens_page(single, scope) else _check_origin(single))
        or _check_target(scope)
        or _check_body(single, scope["method"], counted[b"content-encoding"])
    )


def _check_host(headers: dict[bytes, bytes], scope: Scope, hosts: Collection[str]) -> Refusal | None:
    host = _parse_host(headers.get(b"host", b"").decode("latin-1"))
    own_address = (scope.get("server") or ("",))[0]
    if host is None:
        return Refusal(400, "host", "the Host header is missing or not valid")
    if host in hosts or host == "localhost" or host == _normalise(str(own_address)) or _is_loopback(host):
        return None
    return Refusal(421, "host", "not a name of this server; add it to http.allowed_hosts")


def _opens_page(headers: dict[bytes, bytes], scope: Scope) -> bool:
    """A link to the start page, which has no data in it: somebody may have sent it to a colleague."""
    shown = all(headers.get(name) == value for name, value in _NAVIGATION.items())
    return shown and scope["method"] == "GET" and scope["path"] == "/" and b"origin" not in headers


def _check_origin(headers: dict[bytes, bytes]) -> Refusal | None:
    """Browsers add these headers by themselves and let no page change them."""
    refusal = Refusal(403, "cross_site", "requests from pages of another site are refused")
    if headers.get(b"sec-fetch-site", b"none") not in _SAME_SITE:
        return refusal
    origin = headers.get(b"origin")
    if origin is None:
        return None
    try:
        parts = urlsplit(origin.decode("latin-1"))
    except ValueError:
        return refusal
    same = parts.scheme in ("http", "https") and parts.netloc.lower() == headers[b"host"].decode("latin-1").lower()
    return None if same else refusal


def _check_target(scope: Scope) -> Refusal | None:
    path = str(scope["path"])
    dots = any(part in (".", "..") for part in re.split(r"[/\\]", path))
    if not path.startswith("/") or dots or not path.isprintable():
        return Refusal(400, "path", "the path is not valid")
    return None


def _check_body(headers: dict[bytes, bytes], method: str, encodings: int) -> Refusal | None:
    length, chunked = headers.get(b"content-length"), b"transfer-encoding" in headers
    if length is not None and chunked:  # two servers could see two different requests in it
        return Refusal(400, "ambiguous_length", "Content-Length and Transfer-Encoding exclude each other")
    if method in _READING:
        empty = not chunked and length in (None, b"0")
        return None if empty else Refusal(400, "unexpected_body", f"{method} has no body")
    if length is not None and not (length.isdigit() and int(length[:20]) <= MAX_BODY_BYTES):
        return _too_large()
    if encodings or _JSON.fullmatch(headers.get(b"content-type", b"").strip()) is None:
        return Refusal(415, "content_type", "the content type must be application/json, without a content encoding")
    return None


async def _read_body(receive: Receive) -> bytes | Refusal:
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return Refusal(400, "disconnected", "the body is incomplete")
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    return _too_large()
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return Refusal(408, "slow_body", f"the body did not arrive within {_BODY_S:.0f} s")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read already, then what the server says, which is the end of the connection."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


class _Answer:
    """Adds the headers that every answer has; after a refusal the connection is closed, with what is still to come.

    A stream of events has no time limit here: its connection is dropped once nothing can be written any more.
    """

    def __init__(self, send: Send) -> None:
        self._send, self.started = send, False
        self.limit: asyncio.Timeout | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if self.limit is not None and _is_stream(message):
                self.limit.reschedule(None)
            own = {name.lower() for name, _ in message.get("headers", ())}
            missing = [header for header in _SAFE_HEADERS if header[0] not in own]
            message = {**message, "headers": [*message.get("headers", ()), *missing]}
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        body = orjson.dumps({"error": refusal.words})
        headers: list[tuple[bytes, bytes]] = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(_STREAM) for name, value in message["headers"])


def _too_large() -> Refusal:
    return Refusal(413, "body_size", f"the body must have at most {MAX_BODY_BYTES} bytes")


def _parse_host(text: str) -> str | None:
    """The host without its port, normalised; None where it is not one."""
    matched = _HOST.fullmatch(text)
    if matched is None or int(matched[2] or 0) > 65_535:
        return None
    return _normalise(matched[1])


def _normalise(host: str) -> str:
    name = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
