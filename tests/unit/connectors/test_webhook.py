"""The webhook sink keeps the contract, retries what may succeed later, and hands on what was not accepted."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_binary_event
from stamina.instrumentation import set_on_retry_hooks

from connectors.base import Sink
from connectors.errors import ConnectorError, TransientError
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Message
from connectors.webhook import Receiver, UndeliveredMessage, WebhookSink, request_headers, retry_after_s
from tests.contracts.sink import SinkContract, event

TOKEN = "let-me-in"
QUICK: dict[str, Any] = {"attempts": 3, "first_pause_s": 0.001, "longest_pause_s": 0.002}


@dataclass(frozen=True, slots=True)
class Reply:
    """`held`: waited for before answering, at most ten seconds; a receiver that hangs."""

    status: int = 204
    retry_after: str | None = None
    held: threading.Event | None = None


@dataclass(slots=True)
class Log:
    """The requests of a receiver. It answers by script first, then by asset, then with success."""

    calls: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    script: list[Reply] = field(default_factory=list)
    by_asset: dict[str, Reply] = field(default_factory=dict)
    at_once: int = 0
    most_at_once: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.calls]

    def record(self, headers: dict[str, str], body: bytes) -> Reply:
        with self.guard:
            self.calls.append((headers, body))
            reply = self.script.pop(0) if self.script else self.by_asset.get(headers.get("anchormoe-key", ""), Reply())
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        if reply.held is not None:
            reply.held.wait(90)
        with self.guard:
            self.at_once -= 1
        return reply


@contextmanager
def receiver_of(log: Log) -> Iterator[str]:
    """A real HTTP server on a free port; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            reply = log.record(dict(self.headers.items()), body)
            try:
                self.send_response(reply.status)
                if reply.retry_after is not None:
                    self.send_header("Retry-After", reply.retry_after)
                self.end_headers()
            except OSError:
                self.close_connection = True  # the sink closed the connection, as it may

        def log_message(self, *_: object) -> None:
            """Nothing: the tests read the log that they passed in."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.005))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook?plant=north"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def url(log: Log) -> Iterator[str]:
    with receiver_of(log) as address:
        yield address


class Kept:
    """Takes what was not delivered."""

    def __init__(self) -> None:
        self.undelivered: list[UndeliveredMessage] = []

    async def __call__(self, undelivered: Sequence[UndeliveredMessage]) -> None:
        self.undelivered += undelivered

    @property
    def messages(self) -> list[Message]:
        return [each.message for each in self.undelivered]

    @property
    def errors(self) -> list[str]:
        return [f"{type(each.error).__name__}: {each.error}" for each in self.undelivered]


def receiver_at(url: str, token: str | None = None, **changes: Any) -> Receiver:
    return Receiver(url, token, **(QUICK | changes))


async def write_to(receiver: Receiver, *writes: list[Message]) -> Kept:
    kept = Kept()
    sink = WebhookSink(receiver, kept)
    await sink.start()
    for messages in writes:
        await sink.write(messages)
    await sink.close()
    return kept


def received(headers: dict[str, str], body: bytes) -> Message:
    """The message as a receiver can rebuild it: nothing is lost."""
    ours = {"anchormoe-header-": "", "ce-": "ce_"}
    own = [
        (unquote_to_bytes(name.removeprefix(prefix)).decode(), prefix, value)
        for name, value in headers.items()
        for prefix in ours
        if name.startswith(prefix)
    ]
    rebuilt = tuple((ours[prefix] + name, unquote_to_bytes(value)) for name, prefix, value in own)
    key = headers.get("anchormoe-key")
    value = None if headers.get("anchormoe-value") == "none" else body
    return Message(headers["anchormoe-stream"], None if key is None else unquote_to_bytes(key), value, rebuilt)


class WebhookWorld:
    def __init__(self, log: Log, url: str) -> None:
        self._log, self._url = log, url

    def open(self) -> Sink:
        streams = frozenset({EVENTS, STATES, DEAD_LETTERS})
        return WebhookSink(receiver_at(self._url), Kept(), streams=streams)

    async def stored(self, stream: str) -> list[Message]:
        messages = [received(*call) for call in self._log.calls]
        return [message for message in messages if message.stream == stream]


class TestWebhookSink(SinkContract):
    @pytest.fixture
    def world(self, log: Log, url: str) -> WebhookWorld:
        return WebhookWorld(log, url)


async def test_an_event_arrives_as_a_cloud_event_with_the_token(log: Log, url: str) -> None:
    headers = (("ce_id", b"1"), ("ce_subject", "pumpe ü%".encode()), ("content-type", b"application/json"))
    kept = await write_to(receiver_at(url, TOKEN), [Message(EVENTS, b"pump", b'{"a":1}', headers)])
    [(seen, body)] = log.calls
    assert body == b'{"a":1}'
    assert seen["ce-id"] == "1"
    assert seen["ce-subject"] == "pumpe%20%C3%BC%25"
    assert seen["content-type"] == "application/json"
    assert seen["authorization"] == f"Bearer {TOKEN}"
    assert kept.undelivered == []


async def test_the_reader_of_the_cloudevents_package_understands_it(log: Log, url: str) -> None:
    attributes = {
        "specversion": "1.0",
        "id": "a1",
        "source": "/anchormoe-agent/north",
        "type": "anchormoe.state",
        "subject": "pümpe 2",
        "time": "2026-01-01T00:00:01.5Z",
    }
    headers = [(f"ce_{name}", text.encode()) for name, text in attributes.items()]
    message = Message(EVENTS, b"p", b'{"state":"normal"}', (*headers, ("content-type", b"application/json")))
    await write_to(receiver_at(url), [message])
    seen = from_binary_event(HTTPMessage(*log.calls[0]))
    assert seen.get_data() == {"state": "normal"}
    assert (seen.get_id(), seen.get_subject(), seen.get_type()) == ("a1", "pümpe 2", "anchormoe.state")
    assert seen.get_time() == datetime(2026, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


async def test_only_events_are_posted_unless_told_otherwise(log: Log, url: str) -> None:
    await write_to(receiver_at(url), [Message(STATES, b"a", b"{}"), event(0), Message(DEAD_LETTERS, b"a", b"x")])
    assert log.bodies == [b'{"number": 0}']


async def test_a_receiver_that_fails_once_gets_the_event_again(log: Log, url: str) -> None:
    log.script = [Reply(500), Reply(200)]
    kept = await write_to(receiver_at(url), [event(0), event(1)])
    assert log.bodies == [b'{"number": 0}', b'{"number": 0}', b'{"number": 1}']
    assert kept.undelivered == []


async def test_a_busy_receiver_is_given_the_time_it_asks_for(log: Log, url: str) -> None:
    log.script = [Reply(429, "1"), Reply(200)]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    kept = await write_to(receiver_at(url), [event(0)])
    assert 1 <= loop.time() - begun < 20
    assert len(log.calls) == 2
    assert kept.undelivered == []


async def test_a_receiver_that_asks_for_an_hour_is_not_waited_for(log: Log, url: str) -> None:
    log.script = [Reply(503, "3600")]
    kept = await write_to(receiver_at(url), [event(0)])
    assert len(log.calls) == 1
    assert kept.messages == [event(0)]


@pytest.fixture
def pauses() -> Iterator[list[float]]:
    """The pauses between tries, from stamina's hook."""
    seen: list[float] = []
    set_on_retry_hooks([lambda details: seen.append(details.wait_for)])
    yield seen
    set_on_retry_hooks([])


async def test_pauses_double_with_jitter_and_stay_below_their_limit(log: Log, url: str, pauses: list[float]) -> None:
    log.by_asset = {f"pump-{number}": Reply(500) for number in range(20)}
    events = [event(number, b"pump-%d" % number) for number in range(20)]
    limited = receiver_at(url, attempts=5, first_pause_s=0.002, longest_pause_s=0.004, max_connections=4)
    kept = await write_to(limited, events)
    assert len(log.calls) == 5 * 20
    assert len(pauses) == 4 * 20
    assert 0.001 <= min(pauses) < max(pauses) <= 0.004 + 1e-9
    assert len(set(pauses)) > 20  # jitter
    assert kept.errors == [f"TransientError: {url.split('/')[2]} answered 500"] * 20


async def test_a_receiver_that_hangs_is_given_up_and_the_event_kept(log: Log, url: str) -> None:
    ever = threading.Event()
    log.script = [Reply(held=ever)] * 3
    kept = await write_to(receiver_at(url, timeout_s=0.05), [event(0)])
    ever.set()
    assert kept.messages == [event(0)]
    assert "did not answer within 0.05 s" in str(kept.undelivered[0].error)


async def test_a_write_never_takes_longer_than_one_message_may(log: Log, url: str) -> None:
    ever = threading.Event()
    log.by_asset = {f"pump-{number}": Reply(held=ever) for number in range(400)}
    loop = asyncio.get_running_loop()
    begun = loop.time()
    events = [event(number, b"pump-%d" % number) for number in range(400)]
    kept = await write_to(receiver_at(url, timeout_s=0.05, max_connections=2), events)
    took = loop.time() - begun
    ever.set()
    assert kept.messages == events
    # One message may take 3 × 0.05 s and the pauses; four hundred, two at a time, would take 30 s.
    assert took < 15


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410])
async def test_a_rejected_event_is_not_tried_again(log: Log, url: str, status: int) -> None:
    log.script = [Reply(status), Reply(200)]
    kept = await write_to(receiver_at(url, TOKEN), [event(0), event(1)])
    assert log.bodies == [b'{"number": 0}', b'{"number": 1}']
    assert kept.messages == [event(0)]
    assert isinstance(kept.undelivered[0].error, ConnectorError)
    assert f"answered {status}" in str(kept.undelivered[0].error)


async def test_without_a_server_at_the_address_the_event_is_kept() -> None:
    with receiver_of(Log()) as url:
        pass
    kept = await write_to(receiver_at(url), [event(0)])
    assert isinstance(kept.undelivered[0].error, TransientError)


async def test_an_unavailable_receiver_is_tried_once_per_write_until_it_is_back(log: Log, url: str) -> None:
    log.script = [Reply(503)] * 4
    kept = await write_to(receiver_at(url), [event(0)], [event(1), event(2)], [event(3)], [event(4), event(5)])
    tried = [0, 0, 0, 1, 3, 4, 5]
    assert log.bodies == [b'{"number": %d}' % number for number in tried]
    assert kept.messages == [event(0), event(1), event(2)]


async def test_events_of_an_asset_keep_their_order_while_others_go_on(log: Log, url: str) -> None:
    log.by_asset = {"slow": Reply(500)}
    slow = [event(number, b"slow") for number in range(3)]
    quick = [event(number, b"quick") for number in range(10, 13)]
    kept = await write_to(receiver_at(url), [*slow, *quick])
    by_asset = {
        asset: [received(*call).value for call in log.calls if call[0]["anchormoe-key"] == asset]
        for asset in ("slow", "quick")
    }
    assert by_asset["slow"] == [each.value for each in slow for _ in range(3)]
    assert by_asset["quick"] == [each.value for each in quick]
    assert kept.messages == slow


async def test_connections_are_bounded(log: Log, url: str) -> None:
    held = threading.Event()

    def release() -> None:
        """A while after the third request has come: the time for a fourth one."""
        deadline = time.monotonic() + 60
        while log.at_once < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        held.set()

    events = [event(number, b"pump-%d" % number) for number in range(9)]
    log.script = [Reply(held=held)] * 9
    releasing = threading.Thread(target=release)
    releasing.start()
    await write_to(receiver_at(url, max_connections=3), events)
    releasing.join()
    assert len(log.calls) == 9
    assert log.most_at_once == 3


async def test_neither_token_nor_path_are_ever_shown(log: Log, url: str) -> None:
    log.script = [Reply(400)]
    receiver = receiver_at(url, TOKEN)
    kept = await write_to(receiver, [event(0)])
    shown = f"{receiver!r} {kept.undelivered!r} {kept.errors}"
    assert TOKEN not in shown
    assert "/hook" not in shown


@pytest.mark.parametrize(
    ("url", "token"), [("http://host:99999/", None), ("nowhere", None), ("http://host/", "two\nlines")]
)
async def test_an_unusable_url_or_token_is_reported_at_start(url: str, token: str | None) -> None:
    with pytest.raises(ConnectorError, match=r"address|token"):
        await WebhookSink(Receiver(url, token), Kept()).start()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("Wed, 01 Jan 2025 00:00:30 GMT", 30.0),
        ("Tue, 31 Dec 2024 23:00:00 GMT", 0.0),
        ("soon", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float | None) -> None:
    assert retry_after_s(text, datetime(2025, 1, 1, tzinfo=UTC)) == seconds


def test_the_worst_case_is_all_tries_and_all_pauses() -> None:
    receiver = Receiver("http://host", timeout_s=10, attempts=4, first_pause_s=1, longest_pause_s=3)
    assert receiver.worst_case_s == 4 * 10 + 1 + 2 + 3


def test_a_header_that_cloud_events_does_not_know_keeps_its_name() -> None:
    message = Message(EVENTS, None, None, (("dl_reason", b"late"),))
    assert request_headers(message, None) == [
        ("anchormoe-stream", "events"),
        ("anchormoe-value", "none"),
        ("anchormoe-header-dl_reason", "late"),
    ]
