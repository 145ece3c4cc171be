"""Raw requests over a real socket: what a browser, a script or an attacker may send, and what a route never sees."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent.web import guard
from agent.web.guard import MAX_BODY_BYTES
from agent.web.server import Serving, listen, make_app, serve

JSON = "Content-Type: application/json\r\n"
HOST = "Host: localhost\r\n"


class Server:
    """Counts the requests that reached a route."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.serving = Serving(hosts=frozenset({"Plant.Example.org", "fd00::1"}))
        self.port = 0

    async def page(self, request: Request) -> Response:
        self.reached.append(request.url.path)
        body = await request.body()
        return JSONResponse({"bytes": len(body)})

    def app(self) -> Any:
        return make_app([Route("/{path:path}", self.page, methods=["GET", "POST"])])

    async def send(self, raw: bytes | str) -> tuple[int, bytes]:
        """The status and everything else that was answered, until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(raw if isinstance(raw, bytes) else raw.encode("latin-1"))
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return int(answer.split(b" ", 2)[1]), answer


@asynccontextmanager
async def running() -> AsyncIterator[Server]:
    server = Server()
    listener = listen("127.0.0.1", 0)
    server.port = listener.getsockname()[1]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(serve(server.app(), listener, server.serving))
        yield server
        task.cancel()


def get(headers: str, path: str = "/alarms") -> str:
    return f"GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"


def post(headers: str, body: str = "{}", path: str = "/alarms/x/ack") -> str:
    return f"POST {path} HTTP/1.1\r\n{headers}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"


HOSTS = [
    "localhost",
    "LOCALHOST:8787",
    "127.0.0.1",
    "127.0.0.1:1",
    "[::1]:80",
    "plant.example.org",
    "plant.example.org.:80",
    "[fd00::1]",
]
FOREIGN = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.7", "localhost@evil.example"]
FOREIGN += ["a b", "", "localhost:99999", "localhost:8o", "[::1", "127.0.0.1/../x", "evil.example#localhost"]
OTHER_TYPES = ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json5"]
OTHER_TYPES += ["text/json", "application/json, text/plain", "application/json; charset=utf-16", "text/plain; a/json"]
BAD_PATHS = ["/alarms/../metrics", "/alarms/%2e%2e/x", "/alarms/a%0d%0aX-Evil:%201/ack", "/alarms/%00", "/.."]
BAD_PATHS += ["/alarms/%1b[31m", "/alarms/..%5c..%5cx", "http://evil.example/alarms", "/alarms/%e2%80%ae"]
NOT_HTTP = [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 20_000]
ONCE = ["Host: localhost", "Origin: http://localhost", "Authorization: Bearer x", JSON.strip()]


@pytest.mark.parametrize("host", HOSTS)
async def test_the_server_answers_to_its_own_names(host: str) -> None:
    async with running() as server:
        status, answer = await server.send(get(f"Host: {host}\r\n"))
    assert status == 200
    assert b"x-content-type-options: nosniff" in answer
    assert b"cache-control: no-store" in answer
    assert b"frame-ancestors 'none'" in answer


@pytest.mark.parametrize("host", FOREIGN)
async def test_a_foreign_host_is_refused_on_every_route(host: str) -> None:
    async with running() as server:
        for path in ("/livez", "/metrics", "/alarms", "/nothing"):
            status, _ = await server.send(get(f"Host: {host}\r\n", path))
            assert status in (400, 421)
        status, _ = await server.send(post(f"Host: {host}\r\n{JSON}"))
        assert status in (400, 421)
    assert server.reached == []


async def test_a_request_without_a_host_is_refused() -> None:
    async with running() as server:
        assert (await server.send("GET /livez HTTP/1.0\r\n\r\n"))[0] == 400
        assert (await server.send("GET /livez HTTP/1.1\r\n\r\n"))[0] == 400
    assert server.reached == []


@pytest.mark.parametrize(
    "header",
    [
        "Origin: http://evil.example",
        "Origin: https://localhost.evil.example",
        "Origin: null",
        "Origin: http://localhost:1234",
        "Origin: http://[",
        "Origin: file://localhost",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: SOMETHING",
    ],
)
async def test_requests_from_pages_of_other_sites_are_refused(header: str) -> None:
    async with running() as server:
        assert (await server.send(post(f"{HOST}{JSON}{header}\r\n")))[0] == 403
        assert (await server.send(get(f"{HOST}{header}\r\n", "/livez")))[0] == 403
    assert server.reached == []


@pytest.mark.parametrize(
    "headers", [HOST + "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n", HOST + "Sec-Fetch-Site: none\r\n"]
)
async def test_requests_from_our_own_page_are_answered(headers: str) -> None:
    async with running() as server:
        assert (await server.send(post(headers + JSON)))[0] == 200


@pytest.mark.parametrize("content_type", OTHER_TYPES)
async def test_a_command_must_be_json_by_its_content_type(content_type: str) -> None:
    headers = f"{HOST}Content-Type: {content_type}\r\n" if content_type else HOST
    async with running() as server:
        assert (await server.send(post(headers)))[0] == 415
        assert (await server.send(post(HOST + JSON + "Content-Encoding: gzip\r\n")))[0] == 415
        assert (await server.send(post(HOST + "Content-Type: Application/JSON; charset=UTF-8\r\n")))[0] == 200
    assert len(server.reached) == 1


async def test_a_large_body_is_refused_by_its_length_before_it_is_read() -> None:
    async with running() as server:
        head = f"POST /a/ack HTTP/1.1\r\n{HOST}{JSON}Content-Length: 314572800\r\n\r\n"
        status, answer = await server.send(head)  # nothing of the body was sent
        assert status == 413
        assert b"connection: close" in answer
        for length in ("99999999999999999999999999", "-1", "+5", "1e3", "0x10"):
            status, _ = await server.send(f"POST /a/ack HTTP/1.1\r\n{HOST}{JSON}Content-Length: {length}\r\n\r\n")
            assert status in (400, 413)
    assert server.reached == []


async def test_a_chunked_body_is_read_up_to_the_limit_only() -> None:
    head = f"POST /a/ack HTTP/1.1\r\n{HOST}{JSON}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    half = MAX_BODY_BYTES // 2
    chunk = f"{half:x}\r\n{'x' * half}\r\n"
    async with running() as server:
        status, answer = await server.send(head + chunk * 2 + "0\r\n\r\n")
        assert (status, answer.endswith(b'{"bytes":16384}')) == (200, True)
        assert (await server.send(head + chunk * 2 + "1\r\nx\r\n0\r\n\r\n"))[0] == 413
    assert len(server.reached) == 1


async def test_an_endless_chunked_body_ends_with_the_connection() -> None:
    head = f"POST /a/ack HTTP/1.1\r\n{HOST}{JSON}Transfer-Encoding: chunked\r\n\r\n"
    sent = 0
    async with running() as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode())
        try:
            while sent < 64 << 20:
                writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                await writer.drain()
                sent += 65536
        except ConnectionError:
            pass
        writer.close()
    assert sent < 64 << 20
    assert server.reached == []


@pytest.mark.parametrize(
    "headers",
    [
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length: 5\r\n Transfer-Encoding: chunked\r\n",
    ],
)
async def test_a_request_of_two_lengths_is_refused_and_nothing_behind_it_is_a_request(headers: str) -> None:
    smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with running() as server:
        raw = f"POST /a/ack HTTP/1.1\r\n{HOST}{JSON}{headers}\r\n0\r\n\r\n{smuggled}"
        status, answer = await server.send(raw)
    assert status in (400, 413, 501)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert server.reached == []


@pytest.mark.parametrize("name", ONCE)
async def test_a_header_that_may_come_once_is_refused_twice(name: str) -> None:
    base = HOST + JSON
    async with running() as server:
        assert (await server.send(post(f"{base}{name}\r\n{name}\r\n")))[0] == 400
    assert server.reached == []


@pytest.mark.parametrize("path", BAD_PATHS)
async def test_paths_with_dots_control_characters_or_hosts_are_refused(path: str) -> None:
    async with running() as server:
        status, answer = await server.send(get(HOST, path))
    assert status == 400
    assert b"X-Evil" not in answer
    assert server.reached == []


@pytest.mark.parametrize("raw", NOT_HTTP)
async def test_what_is_not_http_is_answered_with_400(raw: bytes) -> None:
    async with running() as server:
        assert (await server.send(raw))[0] == 400
    assert server.reached == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_reading_has_no_body(method: str) -> None:
    async with running() as server:
        status, _ = await server.send(f"{method} /alarms HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\nhello")
    assert status == 400
    assert server.reached == []


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "DELETE", "PUT", "CONNECT"])
async def test_other_methods_reach_no_route(method: str) -> None:
    async with running() as server:
        status, answer = await server.send(f"{method} /alarms HTTP/1.1\r\n{HOST}{JSON}Connection: close\r\n\r\n")
    assert status in (400, 405)
    assert b"access-control" not in answer.lower()
    assert server.reached == []


async def test_a_body_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_BODY_S", 0.2)
    async with running() as server:
        status, _ = await server.send(f"POST /a/ack HTTP/1.1\r\n{HOST}{JSON}Content-Length: 10\r\n\r\n{{")
    assert status == 408
    assert server.reached == []


async def test_a_route_that_hangs_is_answered_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_HANDLING_S", 0.2)
    server = Server()
    listener = listen("127.0.0.1", 0)
    server.port = listener.getsockname()[1]

    async def hang(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async with asyncio.TaskGroup() as group:
        task = group.create_task(serve(make_app([Route("/", hang)]), listener))
        status, answer = await server.send(get(HOST, "/"))
        task.cancel()
    assert (status, b"it may still take effect" in answer) == (503, True)


async def test_refusals_are_counted_by_reason() -> None:
    async with running() as server:
        for _ in range(3):
            await server.send(get("Host: evil.example\r\n"))
        await server.send(post(HOST))
    assert server.serving.refusals.counts == {"host": 3, "content_type": 1}
