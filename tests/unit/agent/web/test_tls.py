"""HTTPS with a certificate that is replaced while the server runs."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.errors import SettingsError
from agent.web import server as web_server
from agent.web.server import Certificate, Serving, listen, make_app, serve
from tests.support.services.certificates import Authority

PROBE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def running(serving: Serving) -> AsyncIterator[int]:
    async def answer(_: Request) -> Response:
        return Response(b"ok")

    listener = listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(serve(make_app([Route("/", answer)]), listener, serving))
        yield listener.getsockname()[1]
        task.cancel()


async def ask(port: int, authority: Authority) -> tuple[bytes, bytes]:
    """The answer, and the certificate that the server showed."""
    trust = ssl.create_default_context(cafile=str(authority.certificate))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="localhost")
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.write(PROBE)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer, shown


async def test_a_replaced_certificate_is_shown_to_the_next_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "_CERTIFICATE_CHECK_S", 0.05)
    authority = Authority(tmp_path)
    first, second = authority.issue("first"), authority.issue("second")
    cert, key = tmp_path / "server.crt", tmp_path / "server.key"
    shutil.copy(first.certificate, cert)
    shutil.copy(first.key, key)
    async with running(Serving(cert_file=cert, key_file=key)) as port:
        answer, before = await ask(port, authority)
        assert answer.endswith(b"ok")
        cert.write_bytes(b"half a certi")  # changes nothing
        await asyncio.sleep(0.2)
        assert (await ask(port, authority))[1] == before
        shutil.copy(second.certificate, cert)
        shutil.copy(second.key, key)
        async with asyncio.timeout(30):
            while (await ask(port, authority))[1] == before:  # noqa: ASYNC110  # the server tells nobody
                await asyncio.sleep(0.05)


async def test_a_handshake_that_does_not_come_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "_HANDSHAKE_S", 0.3)
    pair = Authority(tmp_path).issue("server")
    async with running(Serving(cert_file=pair.certificate, key_file=pair.key)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()


@pytest.mark.parametrize("swap", [True, False])
def test_files_that_are_no_pair_are_a_settings_error(tmp_path: Path, swap: bool) -> None:
    authority = Authority(tmp_path)
    pair, other = authority.issue("server"), authority.issue("other")
    with pytest.raises(SettingsError, match=r"http\.cert_file"):
        Certificate(pair.certificate, other.key if swap else tmp_path / "missing")
