"""The webhook client against receivers that are misconfigured, overloaded, hostile or not HTTP at all."""

import asyncio
import gzip
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from connectors.errors import TransientError
from connectors.webhook import Receiver, WebhookClient, WebhookResponse
from tests.support.raw_receiver import Respond, drip, endless_error, endless_headers, fixed, hang, raw_receiver, status
from tests.support.services.certificates import Authority

TOKEN = "let-me-in"


async def post(url: str, **changes: Any) -> tuple[WebhookResponse | TransientError, list[str]]:
    """The outcome and the failed tries."""
    failures: list[str] = []
    quick = {"timeout_s": 0.3, "attempts": 2, "first_pause_s": 0.001} | changes
    client = WebhookClient(Receiver(url, TOKEN, **quick), on_failure=lambda error: failures.append(str(error)))
    try:
        return await client.post(lambda: [("authorization", f"Bearer {TOKEN}")], b"{}"), failures
    except TransientError as error:
        return error, failures
    finally:
        await client.close()


@pytest.mark.parametrize("code", [200, 201, 202, 204])
async def test_only_success_is_acceptance(code: int) -> None:
    async with raw_receiver(status(f"{code} fine", "Content-Length: 0\r\n")) as receiver:
        assert await post(receiver.url) == (WebhookResponse(code), [])


@pytest.mark.parametrize("code", [301, 302, 303, 304, 307, 308])
async def test_a_redirect_is_neither_followed_nor_accepted(code: int) -> None:
    async with (
        raw_receiver(status("200 OK", "Content-Length: 0\r\n")) as login,
        raw_receiver(status(f"{code} elsewhere", f"Location: {login.url}\r\nContent-Length: 0\r\n")) as receiver,
    ):
        assert await post(receiver.url) == (WebhookResponse(code), [])
        assert login.requests == []


async def test_an_error_page_in_another_encoding_is_an_answer() -> None:
    async with raw_receiver(status("400 Bad Request", "", b"Ung\xfcltige Anfrage")) as receiver:
        assert await post(receiver.url) == (WebhookResponse(400, "Ung\ufffdltige Anfrage"), [])


async def test_of_a_huge_error_page_only_the_beginning_is_read() -> None:
    async with raw_receiver(endless_error) as receiver:
        answer, _ = await post(receiver.url, timeout_s=20)
        assert answer == WebhookResponse(400, "x" * 200)
        assert receiver.written < 20 << 20  # of 300 MB; some are in the sockets' buffers


async def test_an_error_page_that_does_not_come_is_not_waited_for() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 100\r\n\r\n")
        await hang(writer)

    async with raw_receiver(answer) as receiver:
        assert await post(receiver.url, timeout_s=20) == (WebhookResponse(400), [])


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (hang, "did not answer within 0.3 s"),
        (drip, "did not answer within 0.3 s"),
        (fixed(b""), "disconnected without sending a response"),
        (fixed(b"HTTP/1.1 20"), ""),
        (fixed(b"SSH-2.0-OpenSSH_9.2\r\n\x00\xff"), ""),
        (fixed(b"\x00" * 200_000), ""),
        (endless_headers, ""),
        (status("503 Service Unavailable"), "answered 503"),
        (status("429 Too Many Requests"), "answered 429"),
    ],
    ids=["hangs", "drips", "closes", "closes early", "not HTTP", "binary", "endless headers", "503", "429"],
)
async def test_everything_else_is_tried_again_and_then_given_up(respond: Respond, reason: str) -> None:
    async with raw_receiver(respond) as receiver:
        outcome, failures = await post(receiver.url)
        assert isinstance(outcome, TransientError)
        assert reason in str(outcome)
        assert len(failures) == len(receiver.requests) == 2
        host_and_port = receiver.url.split("/")[2]
        assert all(text.startswith(host_and_port) and "SECRET" not in text for text in failures)
        assert receiver.written < 20 << 20


async def test_an_error_page_that_repeats_our_secrets_is_shown_without_them() -> None:
    page = f"Cannot POST /hooks/T000/SECRETPATH with {TOKEN}".encode()
    async with raw_receiver(status("404 Not Found", "", page)) as receiver:
        outcome, _ = await post(receiver.url)
        assert outcome == WebhookResponse(404, "Cannot POST *** with ***")


async def test_the_path_reaches_the_receiver_encoded_and_nothing_else_is_added() -> None:
    async with raw_receiver(status("200 OK", "Set-Cookie: session=1\r\n")) as receiver:
        await post(f"{receiver.url}/a b?c=d%20e&f=ü")
        await post(receiver.url)
        [first, second] = [request.decode().split("\r\n") for request in receiver.requests]
    assert first[0] == "POST /hooks/T000/SECRETPATH/a%20b?c=d%20e&f=%C3%BC HTTP/1.1"
    names = [line.partition(":")[0].lower() for line in second[1:] if line]
    assert sorted(names) == ["authorization", "connection", "content-length", "host"]


@pytest.mark.parametrize(
    ("url", "shown"), [("https://alerts.example.org/a", "alerts.example.org:443"), ("http://[::1]:8080", "[::1]:8080")]
)
def test_a_client_is_shown_as_host_and_port(url: str, shown: str) -> None:
    assert str(WebhookClient(Receiver(url))) == shown


@contextmanager
def https_receiver(authority: Authority) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    own = authority.issue("receiver")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that does not trust it hangs up
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.005,))
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_receiver_is_trusted_by_the_systems_certificates_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    with https_receiver(authority) as url:
        outcome, _ = await post(url, timeout_s=5)
        assert "certificate verify failed" in str(outcome)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))  # where OpenSSL looks for the system's
        outcome, _ = await post(url, timeout_s=5)
        assert outcome == WebhookResponse(204)


async def endless_1xx(writer: asyncio.StreamWriter) -> None:
    for _ in range(100_000):
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </hooks/T000/SECRETPATH>\r\n\r\n")
        await writer.drain()


async def slow_body(writer: asyncio.StreamWriter) -> None:
    """2xx is acceptance by its status: the body is not waited for."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    await hang(writer)


async def test_endless_informational_answers_are_no_answer() -> None:
    async with raw_receiver(endless_1xx) as receiver:
        answer, failures = await post(receiver.url)
    assert isinstance(answer, TransientError)
    assert len(failures) == 2


async def test_the_body_of_an_acceptance_is_not_waited_for() -> None:
    async with raw_receiver(slow_body) as receiver:
        assert await post(receiver.url, timeout_s=20) == (WebhookResponse(200), [])


async def test_a_compressed_error_page_is_not_unpacked() -> None:
    bomb = gzip.compress(b"x" * (64 << 20))
    headers = f"Content-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n"
    async with raw_receiver(status("400 Bad Request", headers, bomb)) as receiver:
        answer, _ = await post(receiver.url, timeout_s=20)
    assert isinstance(answer, WebhookResponse)
    assert answer.status == 400
    assert len(answer.text) < 1000  # of the packed bytes, escaped
    assert answer.text.isprintable()


@pytest.mark.parametrize(
    "data",
    [
        b"POST /hooks/T000/SECRETPATH HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 400 no\r\n\r\nPOST /hooks/T000/SECRETPATH with let-me-in \x1b[2J\x9b31m",
        b"HTTP/1.1 200 OK\r\n/hooks/T000/SECRETPATH let-me-in\r\n\r\n",
    ],
)
async def test_what_a_receiver_repeats_shows_no_secret_and_no_control_character(data: bytes) -> None:
    async with raw_receiver(fixed(data)) as receiver:
        answer, failures = await post(receiver.url)
    shown = [*failures, repr(answer), str(answer), getattr(answer, "text", "")]
    assert all("SECRETPATH" not in each and TOKEN not in each and each.isprintable() for each in shown)


async def test_a_token_that_is_rotated_counts_with_the_next_try() -> None:
    tokens = iter(["first", "second", "third", "fourth"])
    async with raw_receiver(status("500 no", "Content-Length: 0\r\n")) as receiver:
        to = Receiver(receiver.url, lambda: next(tokens), attempts=2, first_pause_s=0.001)
        client = WebhookClient(to)
        with pytest.raises(TransientError):
            await client.post(lambda: [("authorization", f"Bearer {to.bearer}")], b"{}")
        await client.close()
    sent = [line for request in receiver.requests for line in request.split(b"\r\n") if b"uthorization" in line]
    assert len(set(sent)) == 2
