"""HTTP receivers: a client with bounded retries, and a sink that posts events to one as CloudEvents in binary mode."""

import asyncio
import random
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast
from urllib.parse import quote

import httpx
import stamina
from stamina.instrumentation import set_on_retry_hooks

from connectors.errors import ConnectorError, TransientError
from connectors.printable import printable
from connectors.records import EVENTS, Message

Headers = Sequence[tuple[str, str]]
_PORTS = {"http": 80, "https": 443}
_RETRIED = frozenset({408, 425, 429})
_MAX_BODY_BYTES, _MAX_BODY_S, _SHOWN_CHARACTERS = 4096, 1.0, 200
_SLACK_S = 0.5
"""Of a write, so that the last try can report its own time-out."""
_UNENCODED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
"""CloudEvents percent-encodes all other bytes of a header's value."""

set_on_retry_hooks([])  # stamina would log every retry of every event; the callers log what matters to them


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where to post and how often to try. Only host and port are ever shown: the path may be as secret as the token.

    Pauses double from `first_pause_s` up to `longest_pause_s`. `token` may be a function, asked with every request.
    """

    url: str = field(repr=False)
    token: str | Callable[[], str] | None = field(default=None, repr=False)
    timeout_s: float = 5.0
    attempts: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    max_connections: int = 8

    @property
    def bearer(self) -> str | None:
        """The present token."""
        return self.token() if callable(self.token) else self.token

    @property
    def worst_case_s(self) -> float:
        """All tries and pauses together."""
        pauses = (self.first_pause_s * 2.0 ** min(number, 64) for number in range(self.attempts - 1))
        return self.attempts * self.timeout_s + sum(min(pause, self.longest_pause_s) for pause in pauses)


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A response that another try would not change. `text`: the beginning of the body, if it was not accepted."""

    status: int
    text: str = ""

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300


class WebhookClient:
    """Posts to one receiver, each request on its own connection. `str` gives host and port.

    It uses httpx's transport directly: no redirects, which would send payload and token elsewhere, no cookies, and
    neither proxies nor logins from the environment. `on_failure` is called for every try that failed.
    """

    def __init__(self, receiver: Receiver, *, on_failure: Callable[[TransientError], None] = lambda _: None) -> None:
        """Raises `ConnectorError` if the URL or the token cannot be used."""
        self._receiver, self._url, self._on_failure = receiver, _parse_url(receiver), on_failure
        self._connections = asyncio.Semaphore(receiver.max_connections)
        limits = httpx.Limits(max_keepalive_connections=0)
        self._transport = httpx.AsyncHTTPTransport(verify=ssl.create_default_context(), limits=limits, trust_env=False)

    def __str__(self) -> str:
        host = f"[{self._url.host}]" if ":" in self._url.host else self._url.host
        return f"{host}:{self._url.port or _PORTS[self._url.scheme]}"

    async def post(
        self, headers: Callable[[], Headers], body: bytes, *, attempts: int | None = None
    ) -> WebhookResponse:
        """Raises `TransientError` if no try had a final response. `headers` is called for every try."""
        receiver, end = self._receiver, asyncio.get_running_loop().time() + self._receiver.worst_case_s
        retrying = stamina.AsyncRetryingCaller(
            attempts=attempts or receiver.attempts,
            timeout=None,  # would allow any Retry-After that begins before it; `_backoff` looks at the end
            wait_initial=receiver.first_pause_s / 2,
            wait_jitter=receiver.first_pause_s / 2,  # is added to the pause: together they do not exceed ours
            wait_max=receiver.longest_pause_s,
        )
        return await retrying(lambda error: self._backoff(error, end), self._try, headers, body)

    async def close(self) -> None:
        await self._transport.aclose()

    def _backoff(self, error: Exception, end: float) -> bool | float:
        """For stamina: whether to try again, or after how many seconds where the receiver has said so."""
        if not isinstance(error, TransientError):
            return False
        if error.retry_after_s is None:
            return True
        pause_s = error.retry_after_s + random.uniform(0.5, 1) * self._receiver.first_pause_s
        return pause_s if asyncio.get_running_loop().time() + pause_s < end else False

    async def _try(self, headers: Callable[[], Headers], body: bytes) -> WebhookResponse:
        try:
            async with self._connections:
                return await self._exchange(headers(), body)
        except TransientError as error:
            self._on_failure(error)
            raise

    async def _exchange(self, headers: Headers, body: bytes) -> WebhookResponse:
        request = httpx.Request("POST", self._url, headers=[("connection", "close"), *headers], content=body)
        try:
            async with asyncio.timeout(self._receiver.timeout_s):
                response = await self._transport.handle_async_request(request)
                try:
                    return await self._read(response)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            raise TransientError(f"{self} did not answer within {self._receiver.timeout_s:.3g} s") from error
        except (httpx.HTTPError, OSError) as error:
            raise TransientError(f"{self}: {self._show(str(error)) or type(error).__name__}") from error

    async def _read(self, response: httpx.Response) -> WebhookResponse:
        status = response.status_code
        if status in _RETRIED or status >= 500:
            pause_s = retry_after_s(response.headers.get("retry-after"), datetime.now(UTC))
            raise TransientError(f"{self} answered {status}", retry_after_s=pause_s)
        if 200 <= status < 300:
            return WebhookResponse(status)
        text = (await _first_bytes(response)).decode(errors="replace")
        return WebhookResponse(status, self._show(text))

    def _show(self, text: str) -> str:
        """What a receiver says, for one line of a log: without secrets, which error pages like to repeat."""
        url = self._url
        for secret in (str(url), url.raw_path.decode(), url.path, url.query.decode(), self._receiver.bearer or ""):
            text = text.replace(secret, "***") if len(secret) > 1 else text
        return printable(text[:_SHOWN_CHARACTERS])


@dataclass(frozen=True, slots=True)
class UndeliveredMessage:
    """A message that the receiver did not accept: `ConnectorError` means never, `TransientError` not in time."""

    message: Message
    error: ConnectorError | TransientError


class WebhookSink:
    """Posts in order per key, several keys at a time. A receiver that rejects or is unavailable never stops the agent.

    `write` returns when each message was accepted or given to `keep`. It takes no longer than one message may take with
    all its tries, however many there are, because the source must be polled in time; what was not accepted by then is
    undelivered. After a write that found the receiver unavailable, the next one tries its first message once, and the
    others only if that one was answered. A message may arrive twice: receivers know it by `ce-id`.
    """

    def __init__(
        self,
        receiver: Receiver,
        keep: Callable[[Sequence[UndeliveredMessage]], Awaitable[None]],
        *,
        streams: frozenset[str] = frozenset({EVENTS}),
    ) -> None:
        self._receiver, self._keep, self._streams = receiver, keep, streams
        self._client: WebhookClient | None = None
        self._available = True

    async def start(self) -> None:
        """Connects to nothing: whether the receiver is available shows with the first event."""
        self._client = WebhookClient(self._receiver)

    async def write(self, messages: Sequence[Message]) -> None:
        if self._client is None:
            raise ConnectorError("the webhook is not open")
        wanted = [message for message in messages if message.stream in self._streams]
        if not wanted:
            return
        undelivered = await self._deliver(self._client, wanted)
        self._available = not any(isinstance(each.error, TransientError) for each in undelivered)
        if undelivered:
            await self._keep(undelivered)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _deliver(self, client: WebhookClient, messages: Sequence[Message]) -> list[UndeliveredMessage]:
        """The messages that were not accepted, in their order."""
        errors: dict[int, ConnectorError | TransientError | None] = {}

        async def post(numbers: Sequence[int], attempts: int | None = None) -> None:
            for number in numbers:
                errors[number] = await self._post(client, messages[number], attempts)

        with suppress(TimeoutError):
            async with asyncio.timeout(self._receiver.worst_case_s + _SLACK_S), asyncio.TaskGroup() as group:
                if not self._available:
                    await post([0], attempts=1)
                if not isinstance(errors.get(0), TransientError):
                    for numbers in _by_key(messages, len(errors)):
                        group.create_task(post(numbers))
        late = TransientError(f"{client} did not accept it in time")
        outcomes = ((message, errors.get(number, late)) for number, message in enumerate(messages))
        return [UndeliveredMessage(message, error) for message, error in outcomes if error is not None]

    async def _post(
        self, client: WebhookClient, message: Message, attempts: int | None
    ) -> ConnectorError | TransientError | None:
        try:
            headers = request_headers(message, self._receiver.bearer)
            response = await client.post(lambda: headers, message.value or b"", attempts=attempts)
        except TransientError as error:
            return error
        return None if response.accepted else ConnectorError(f"{client} answered {response.status}")


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Seconds or a date, as HTTP allows both; None for anything else."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text)
    with suppress(ValueError):
        then = parsedate_to_datetime(text)
        return max((then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds(), 0.0)
    return None


def request_headers(message: Message, token: str | None) -> list[tuple[str, str]]:
    """`ce_x` becomes `ce-x`, as CloudEvents' HTTP binding says; headers that it does not define get `anchormoe-`."""
    headers = [("anchormoe-stream", message.stream)]
    if message.key is not None:
        headers.append(("anchormoe-key", quote(message.key, safe=_UNENCODED)))
    if message.value is None:
        headers.append(("anchormoe-value", "none"))
    headers += [_header(name, value) for name, value in message.headers]
    return headers if token is None else [*headers, ("authorization", f"Bearer {token}")]


def _header(name: str, value: bytes) -> tuple[str, str]:
    if name == "content-type":
        return name, quote(value, safe=_UNENCODED + " ")  # its parameters follow a space
    ours = f"ce-{quote(name[3:], safe='')}" if name.startswith("ce_") else f"anchormoe-header-{quote(name, safe='')}"
    return ours, quote(value, safe=_UNENCODED)


def _parse_url(receiver: Receiver) -> httpx.URL:
    token = receiver.bearer or ""
    if not (token.isascii() and token.isprintable()):
        raise ConnectorError("the webhook's token has characters that an HTTP header cannot carry")
    try:
        url = httpx.URL(receiver.url)
    except httpx.InvalidURL as error:
        raise ConnectorError(f"the webhook's URL is not an address: {error}") from error
    if url.scheme not in _PORTS or not url.host or not 0 < (url.port or 1) < 1 << 16:
        raise ConnectorError("the webhook's URL is not an address: expected http:// or https://, a host, a valid port")
    return url


async def _first_bytes(response: httpx.Response) -> bytes:
    """The first bytes of the body, or none if they do not come soon: the status alone is a response."""
    parts = cast("AsyncGenerator[bytes, None]", response.aiter_raw(_MAX_BODY_BYTES))
    with suppress(httpx.HTTPError, OSError):
        async with asyncio.timeout(_MAX_BODY_S), aclosing(parts):
            return await anext(parts, b"")
    return b""


def _by_key(messages: Sequence[Message], first: int) -> list[list[int]]:
    """The numbers of the messages from `first` on, in order per key."""
    lanes: dict[bytes | None, list[int]] = {}
    for number, message in enumerate(messages[first:], first):
        lanes.setdefault(message.key, []).append(number)
    return list(lanes.values())
