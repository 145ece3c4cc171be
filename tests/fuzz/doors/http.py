"""The doors for HTTP: raw requests to the real servers, and raw answers of webhook receivers."""

import asyncio
import logging
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import orjson
from starlette.applications import Starlette

from agent.alarms.core.inputs import Command
from agent.alarms.counters import AlarmCounters
from agent.alarms.http import AlarmApi
from agent.alarms.messages import alarm_data
from agent.alarms.metrics import alarm_registry
from agent.alarms.webhooks import AlarmDelivery, AlarmReceiver
from agent.health.counters import Counters
from agent.health.http import HealthPages
from agent.health.metrics import make_registry
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.web.access import Access
from agent.web.server import listen, serve
from agent.web.users import UsersFile, hash_token
from connectors.records import EVENTS, Message, Partition
from connectors.webhook import Receiver, UndeliveredMessage, WebhookSink
from tests.fuzz.cases import Input, Outcome
from tests.fuzz.doors.alarms import plant
from tests.fuzz.mutation import NAMES, TOKENS, mutate_bytes, mutate_document, parsed, write
from tests.support.alarm_log import Run, event

TOKEN, READ_TOKEN = "amt_correct-horse-battery-staple", "prometheus"
HEALTH, ALARMS, DELIVERY, SINK = "health", "alarms", "alarm-delivery", "event-sink"
_ANSWER_S = 10.0
_AT_ONCE = 16
_PATHS = (
    b"/livez", b"/readyz", b"/metrics", b"/alarms", b"/alarms?state=active", b"/alarms/wear:pump-1",
    b"/alarms/wear:pump-1/ack", b"/alarms/wear:pump-1/shelve", b"/alarms/x/out-of-service", b"/", b"*", b"//",
    b"/alarms/%ff/ack", b"/alarms/%00/ack", b"/alarms/..%2f..%2fetc", b"/alarms/wear:pump-1%0d%0aX:%20y/ack",
    b"/alarms/" + b"a" * 9_000, b"http://evil.example/alarms", b"/livez?" + b"q" * 70_000, b"/\xff\xfe",
)  # fmt: skip
_METHODS = (
    b"GET",
    b"GET",
    b"GET",
    b"POST",
    b"POST",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"CONNECT",
    b"TRACE",
    b"PRI",
    b"G\x00T",
)
_FIELDS = (
    b"Host: evil.example", b"Origin: http://evil.example", b"Origin: null", b"Content-Type: text/plain",
    b"Content-Type: application/x-www-form-urlencoded", b"Sec-Fetch-Site: cross-site", b"Authorization: Bearer x",
    b"Authorization: Bearer \xff\xfc", b"Authorization: Basic Og==", b"Authorization:", b"Expect: 100-continue",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Content-Length: -1", b"Content-Length: 9" * 1,
    b"Content-Length: 99999999999999999999", b"Connection: upgrade", b"Upgrade: websocket", b"X: " + b"y" * 9_000,
    b"X-Forwarded-For: \x1b[2J", b" folded: x", b"No colon", b"Cookie: a=\x00", b"Host:", b"Range: bytes=0-0",
)  # fmt: skip
_BODY = {"by": "ada", "why": "on my way", "until": "2023-11-14T22:13:20Z"}
_ALIVE = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_ANY_STATUS = re.compile(rb"HTTP/\d\.\d (\d{3})")
"""A client may take another version's number for what it is: a number."""


@dataclass(frozen=True, slots=True)
class RequestDoor:
    name: str = "http-requests"
    variants: Sequence[str] = (HEALTH, ALARMS)
    batch: int = 64
    renew_after: int = 2_000

    def open(self, variant: str) -> "RequestSession":
        return RequestSession(variant)


class RequestSession:
    """Both servers have a token: whatever the bytes, without it nothing is told and nothing is done."""

    def __init__(self, variant: str) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._runner, self._sent = asyncio.Runner(), list[Command]()
        self._place = tempfile.TemporaryDirectory(prefix="fuzz-users-")
        access = Access(lambda: READ_TOKEN, _users(Path(self._place.name) / "users.yaml"))
        app = _health_app(access) if variant == HEALTH else _alarm_app(self._sent, access)
        self._runner.run(self._serve(app))

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [Input(_request(rng, pool)) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        self._sent.clear()
        outcome = self._runner.run(self._exchange_all(inputs))
        if self._server.done():
            outcome.violate("crash", "the server has ended", *range(len(inputs)))
        return outcome

    def close(self) -> None:
        try:
            self._runner.run(self._end())
        finally:
            self._runner.close()
            self._place.cleanup()

    async def _serve(self, app: Starlette) -> None:
        listener = listen("127.0.0.1", 0)
        self._port = listener.getsockname()[1]
        self._server = asyncio.get_running_loop().create_task(serve(app, listener))
        await self._exchange(_ALIVE)  # the socket listens already, so this waits until the server answers

    async def _end(self) -> None:
        self._server.cancel()
        with suppress(asyncio.CancelledError):
            await self._server

    async def _exchange_all(self, inputs: Sequence[Input]) -> Outcome:
        outcome, slots = Outcome(), asyncio.Semaphore(_AT_ONCE)

        async def one(index: int, request: bytes) -> None:
            async with slots:
                answer = await self._exchange(request)
            self._check(index, request, answer, outcome)

        async with asyncio.TaskGroup() as group:
            for index, each in enumerate(inputs):
                group.create_task(one(index, each.value or b""))
        alive = await self._exchange(_ALIVE)
        if not alive.startswith(b"HTTP/1.1 200"):
            outcome.violate("hang", f"afterwards the server answers {alive[:20]!r}", *range(len(inputs)))
        return outcome

    async def _exchange(self, request: bytes) -> bytes:
        """Everything that comes back until the server closes; the request's end is told by closing our side."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return b""
        try:
            async with asyncio.timeout(_ANSWER_S):
                writer.write(request)
                writer.write_eof()
                return await reader.read(-1)
        except TimeoutError:
            return b"no answer"
        except OSError:
            return b""
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _check(self, index: int, request: bytes, answer: bytes, outcome: Outcome) -> None:
        codes = [int(code) for code in _STATUS.findall(answer)]
        if answer == b"no answer":
            outcome.violate("hang", f"no answer within {_ANSWER_S} s", index)
        if any(code >= 500 for code in codes):
            outcome.violate("crash", f"answered {max(codes)}", index)
        if 202 in codes and TOKEN.encode() not in request:
            outcome.violate("both", "a command was accepted without the token of a user who may give it", index)
        if b"\x1b" in answer:
            outcome.violate("unescaped", "an answer has an escape sequence", index)
        if any(200 <= code < 300 for code in codes):
            outcome.used += 1
        else:
            outcome.refused[str(codes[-1]) if codes else "closed"] += 1
        outcome.traits.append((index, tuple(codes)))


def _users(path: Path) -> UsersFile:
    path.write_text(f"users: [{{name: ada, role: engineer, token_sha256: {hash_token(TOKEN)}}}]\n")
    path.chmod(0o600)
    return UsersFile(path)


def _health_app(access: Access) -> Starlette:
    progress, status = Progress(lambda: 100.0), RuntimeStatus(lambda: 100.0, models_loaded=True, store_reachable=True)
    status.ticked(0.0)
    status.owns({Partition("readings", 0): 1})
    progress.lag_measured({Partition("readings", 0): 0})
    registry = make_registry(Counters(), progress, status)
    return HealthPages(progress, status, registry, no_progress_s=60, access=access).app()


def _alarm_app(sent: list[Command], access: Access) -> Starlette:
    run = Run(plant()).apply(event(0, 0.9))

    async def send(_: str, command: Command) -> None:
        sent.append(command)

    registry = alarm_registry(AlarmCounters(), lambda: [run.console], run.plant)
    return AlarmApi(run.plant, lambda: [run.console], send, registry, access=access).app()


def _request(rng: Random, pool: Sequence[Input]) -> bytes:
    if pool and rng.random() < 0.15:
        return mutate_bytes(rng.choice(pool).value or b"", rng)
    method, path = rng.choice(_METHODS), rng.choice(_PATHS if rng.random() < 0.5 else _PATHS[:9])
    body = b"" if method == b"GET" and rng.random() < 0.9 else _body(rng)
    fields = [] if rng.random() < 0.1 else [b"Host: 127.0.0.1"]
    if rng.random() < 0.5:
        fields.append(b"Authorization: Bearer " + rng.choice([TOKEN, TOKEN, READ_TOKEN]).encode())
    if rng.random() < 0.6:
        fields.append(b"Content-Type: application/json")
    if body and rng.random() < 0.9:
        fields.append(b"Content-Length: %d" % (len(body) + rng.choice([0, 0, 0, 0, 0, -1, 1, 100])))
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        fields.insert(rng.randint(0, len(fields)), rng.choice(_FIELDS))
    head = b"%b %b %b\r\n" % (
        method,
        path,
        rng.choice([b"HTTP/1.1"] * 30 + [b"HTTP/1.0", b"HTTP/2.0", b"", b"HTTP/1.1 x"]),
    )
    request = head + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body
    if rng.random() < 0.1:
        request *= rng.choice([2, 5])  # a pipeline
    return mutate_bytes(request, rng) if rng.random() < 0.2 else request


def _body(rng: Random) -> bytes:
    node = parsed(_BODY)
    for _ in range(rng.choice([0, 1, 1, 2])):
        node = mutate_document(node, rng, (*NAMES, b'"by"', b'"why"', b'"until"', b'"verb"', b'"time"', b'"id"'))
    body = write(node)
    if rng.random() < 0.02:
        body += b" " * rng.choice([16_384, 20_000, 400_000])
    if rng.random() < 0.05:
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) + rng.choice([0, 0, 1, -1]), body)
    return body


@dataclass(frozen=True, slots=True)
class AnswerDoor:
    name: str = "webhook-answers"
    variants: Sequence[str] = (DELIVERY, SINK)
    batch: int = 64
    renew_after: int = 2_000

    def open(self, variant: str) -> "AnswerSession":
        return AnswerSession(variant)


class AnswerSession:
    """A receiver that answers with the input's bytes; only 2xx may count as accepted."""

    def __init__(self, variant: str) -> None:
        self._variant, self._runner, self._answer = variant, asyncio.Runner(), b""
        self._undelivered: list[UndeliveredMessage] = []
        self._runner.run(self._start())

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [Input(_answer(rng, pool)) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        return self._runner.run(self._deliver_all(inputs))

    def close(self) -> None:
        try:
            self._runner.run(self._end())
        finally:
            self._runner.close()

    async def _start(self) -> None:
        self._listening = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        port = self._listening.sockets[0].getsockname()[1]
        receiver = Receiver(f"http://127.0.0.1:{port}/hooks/SECRETPATH", "token", timeout_s=0.5, attempts=1)
        self._counters = AlarmCounters()
        self._delivery = AlarmDelivery(AlarmReceiver("am", receiver, "alertmanager"), "north", self._counters)
        self._sink = WebhookSink(receiver, self._keep)
        await self._sink.start()
        run = Run(plant()).apply(event(0, 0.9), event(30, 0.9))
        alarms = [alarm_data("hall", run.plant, alarm) for alarm in run.console.alarms.values()]
        self._alarms = orjson.loads(orjson.dumps(alarms))

    async def _end(self) -> None:
        await self._sink.close()
        await self._delivery.close()
        self._listening.close()
        await self._listening.wait_closed()

    async def _keep(self, undelivered: Sequence[UndeliveredMessage]) -> None:
        self._undelivered.extend(undelivered)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _deliver_all(self, inputs: Sequence[Input]) -> Outcome:
        outcome = Outcome()
        for index, each in enumerate(inputs):
            self._answer = each.value or b""
            accepted = await (self._post_alarms() if self._variant == DELIVERY else self._post_event())
            final = [int(code) for code in _ANY_STATUS.findall(self._answer.replace(b"\r\n\r\n", b"\r\n"))]
            if accepted and not any(200 <= code < 300 for code in final):
                outcome.violate("both", f"counted as accepted: {final[:1]}", index)
            outcome.traits.append((index, (accepted, final[0] if final else None)))
            if accepted:
                outcome.used += 1
            else:
                outcome.refused["not accepted"] += 1
        return outcome

    async def _post_alarms(self) -> bool:
        before = self._counters.webhooks["am", "accepted"]
        await self._delivery.deliver(self._alarms)
        return self._counters.webhooks["am", "accepted"] > before

    async def _post_event(self) -> bool:
        self._undelivered.clear()
        await self._sink.write([Message(EVENTS, b"pump-1", b"{}", (("ce_id", b"1"), ("ce_type", b"\xff")))])
        return not self._undelivered


_CODES = (b"200 OK", b"202", b"204 No Content", b"299 x", b"301 M", b"302 Found", b"304 N", b"307 T", b"400 Bad",
          b"401", b"404 \xfc", b"408", b"413", b"425", b"429", b"500", b"503 x", b"599", b"600", b"999", b"99",
          b"100 C", b"101 S", b"0200 OK", b"2e2", b"-200", b"")  # fmt: skip
_ANSWER_FIELDS = (
    b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 99999999999999999999",
    b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Content-Encoding: br", b"Location: /login",
    b"Location: http://127.0.0.1:9/", b"Location: \xff", b"Retry-After: 0", b"Retry-After: 99999999999999999999",
    b"Retry-After: -1", b"Retry-After: Wed, 31 Dec 9999 23:59:59 GMT", b"Retry-After: \xd9\xa1", b"Retry-After: x",
    b"Retry-After: Wed, 99 Foo 2024 25:61:61 +9999", b"Set-Cookie: a=b", b"X: " + b"y" * 70_000, b"no colon", b": x",
    b"Connection: keep-alive", b"Content-Type: text/html; charset=latin-9", b"\x00: \x00", b"Upgrade: h2c",
)  # fmt: skip
_PAGES = (b"", b"hello", b"Ung\xfcltige Anfrage", b"\x1f\x8b\x08\x00broken", b"5\r\nhello\r\n0\r\n\r\n",
          b"ffffffff\r\n", b"Cannot POST /hooks/SECRETPATH", b"\x1b[2J" * 50, b"<html>" * 2_000,
          b"\xed\xa0\x80" * 200)  # fmt: skip


def _answer(rng: Random, pool: Sequence[Input]) -> bytes:
    if pool and rng.random() < 0.1:
        return mutate_bytes(rng.choice(pool).value or b"", rng)
    if rng.random() < 0.03:
        return rng.choice(
            [b"", b"\x00" * 100, b"SSH-2.0-OpenSSH_9.2\r\n", rng.choice(TOKENS), b"\x15\x03\x01\x00\x02\x02\x28"]
        )
    fields = b"".join(rng.choice(_ANSWER_FIELDS) + b"\r\n" for _ in range(rng.choice([0, 1, 1, 2, 3])))
    answer = b"HTTP/1.1 " + rng.choice(_CODES) + b"\r\n" + fields + b"\r\n" + rng.choice(_PAGES)
    if rng.random() < 0.1:
        answer = b"HTTP/1.1 100 Continue\r\n\r\n" + answer
    return mutate_bytes(answer, rng) if rng.random() < 0.3 else answer
