"""Events to an HTTP address: CloudEvents in HTTP's binary mode, bounded retries, and a place for what is refused."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

from connectors.errors import ConnectorError, TransientError
from connectors.http_post import Address, post, retry_after_s
from connectors.records import EVENTS, Message

_PASSING = frozenset({408, 425, 429})
_PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
"""What CloudEvents leaves as it is in a header; everything else is percent-encoded, byte by byte."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who is told, and of which streams; at most `concurrency` connections at a time."""

    url: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    timeout_s: float = 5.0
    concurrency: int = 8
    streams: frozenset[str] = frozenset({EVENTS})


@dataclass(frozen=True, slots=True)
class Patience:
    """Tries altogether, and pauses that double from `first_pause_s` up to `longest_pause_s`."""

    attempts: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0

    def pause_s(self, tried: int) -> float:
        """After the `tried`-th try, before jitter."""
        return float(min(self.first_pause_s * 2.0 ** min(tried - 1, 64), self.longest_pause_s))

    def worst_case_s(self, timeout_s: float) -> float:
        return self.attempts * timeout_s + sum(self.pause_s(tried) for tried in range(1, self.attempts))


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that the receiver did not take: `ConnectorError` says never, `TransientError` not in time."""

    message: Message
    error: ConnectorError | TransientError


KeepRefused = Callable[[Sequence[Refused]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Chronology:
    """Time and chance, so that tests need neither."""

    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


class WebhookSink:
    """Posts in order per key, keys beside each other. A receiver that refuses or is away never stops the agent.

    `write` returns when each message was taken or `keep_refused` has it. It takes no longer than one message may with
    all its tries, however many there are, because the source must be polled again in time; what was not taken by then
    is refused. After a write that ran out of patience the next one gives up at the first failure, so that a receiver
    that is away does not slow the stream down. A message may arrive twice: receivers know it by `ce-id`.
    """

    def __init__(
        self,
        receiver: Receiver,
        keep_refused: KeepRefused,
        *,
        patience: Patience | None = None,
        chronology: Chronology | None = None,
    ) -> None:
        self._receiver, self._keep_refused = receiver, keep_refused
        self._patience, self._time = patience or Patience(), chronology or Chronology()
        self._address: Address | None = None
        self._away = False

    async def start(self) -> None:
        """Connects to nothing: whether the receiver is there shows with the first event."""
        token = self._receiver.token or ""
        if not (token.isascii() and token.isprintable()):
            raise ConnectorError("the webhook's token has characters that no header can carry")
        self._address = Address.parse(self._receiver.url)

    async def write(self, messages: Sequence[Message]) -> None:
        if self._address is None:
            raise ConnectorError("the webhook is not open")
        refused = await self._delivered(self._address, [each for each in messages if self._is_wanted(each)])
        if refused:
            await self._keep_refused(refused)

    async def close(self) -> None:
        self._address = None

    def _is_wanted(self, message: Message) -> bool:
        return message.stream in self._receiver.streams

    async def _delivered(self, address: Address, messages: Sequence[Message]) -> list[Refused]:
        """What was not, in the order it came."""
        delivery = _Delivery(address, self._receiver, self._patience, self._time, probing=self._away)
        async with asyncio.TaskGroup() as group:
            for lane in _by_key(messages).values():
                group.create_task(delivery.run(lane))
        refused = [Refused(each, delivery.failed[at]) for at, each in enumerate(messages) if at in delivery.failed]
        if messages:
            self._away = any(isinstance(each.error, TransientError) for each in refused)
        return refused


class _Delivery:
    """One write under way: its lanes share the connections and the deadline."""

    def __init__(
        self, address: Address, receiver: Receiver, patience: Patience, chronology: Chronology, *, probing: bool
    ) -> None:
        self._address, self._receiver, self._patience, self._time = address, receiver, patience, chronology
        self._probing = probing
        self._deadline = chronology.clock() + patience.worst_case_s(receiver.timeout_s)
        self._connections = asyncio.Semaphore(receiver.concurrency)
        self.failed: dict[int, ConnectorError | TransientError] = {}

    async def run(self, lane: Sequence[tuple[int, Message]]) -> None:
        """The messages of one key, one after the other."""
        for at, message in lane:
            try:
                await self._persist(request_headers(message, self._receiver.token), message.value or b"")
            except (ConnectorError, TransientError) as error:
                self.failed[at] = error

    async def _persist(self, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Until it is taken, refused for good, or there is no try or no time left."""
        for tried in range(1, self._patience.attempts + 1):
            try:
                await self._attempt(headers, body)
                return
            except TransientError as error:
                if self._probing:
                    self._deadline = self._time.clock()
                pause_s = self._pause_s(tried, error.retry_after_s)
                if tried == self._patience.attempts or pause_s >= self._left_s():
                    raise
                await self._time.pause(pause_s)

    async def _attempt(self, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        async with self._connections:
            left_s = self._left_s()
            if left_s <= 0:
                raise TransientError(f"{self._address}: no time was left for it")
            answer = await post(self._address, headers, body, timeout_s=min(self._receiver.timeout_s, left_s))
        if 200 <= answer.status < 300:
            return
        said = f"{self._address} answered {answer.status}"
        if answer.status in _PASSING or answer.status >= 500:
            raise TransientError(said, retry_after_s=retry_after_s(answer.retry_after, datetime.now(UTC)))
        raise ConnectorError(said)

    def _pause_s(self, tried: int, asked_s: float | None) -> float:
        """What the receiver asked for, or half to all of the usual pause: many agents must not come back as one."""
        usual_s = self._patience.pause_s(tried) * (0.5 + 0.5 * self._time.chance())
        return usual_s if asked_s is None else max(asked_s, usual_s)

    def _left_s(self) -> float:
        return self._deadline - self._time.clock()


def request_headers(message: Message, token: str | None) -> list[tuple[str, str]]:
    """`ce_x` becomes `ce-x`, as the binding says; what CloudEvents has no word for begins with `anchormoe-`."""
    headers = [("anchormoe-stream", message.stream)]
    if message.key is not None:
        headers.append(("anchormoe-key", _encoded(message.key)))
    if message.value is None:
        headers.append(("anchormoe-value", "none"))
    headers += [_header(name, value) for name, value in message.headers]
    return headers if token is None else [*headers, ("authorization", f"Bearer {token}")]


def _header(name: str, value: bytes) -> tuple[str, str]:
    if name == "content-type":
        return name, quote(value, safe=_PRINTABLE + " ")  # its parameters follow a blank
    ours = f"ce-{quote(name[3:], safe='')}" if name.startswith("ce_") else f"anchormoe-header-{quote(name, safe='')}"
    return ours, _encoded(value)


def _encoded(value: bytes) -> str:
    return quote(value, safe=_PRINTABLE)


def _by_key(messages: Sequence[Message]) -> Mapping[bytes | None, list[tuple[int, Message]]]:
    lanes: dict[bytes | None, list[tuple[int, Message]]] = {}
    for at, message in enumerate(messages):
        lanes.setdefault(message.key, []).append((at, message))
    return lanes
