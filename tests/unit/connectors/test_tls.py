"""Certificates that are replaced while a client runs: its next connection uses them."""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from connectors.tls import client_context
from tests.support.services.certificates import Authority, Certificate


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


class Files:
    """The certificate and key of the client, at one place, as secret volumes give them."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "agent.pem", directory / "agent.key"

    def replace(self, by: Certificate, *, key: bool = True) -> None:
        for path, new in [(self.certificate, by.certificate), *([(self.key, by.key)] if key else [])]:
            beside = path.with_suffix(".new")
            beside.write_bytes(new.read_bytes())
            os.replace(beside, path)


@asynccontextmanager
async def server(authority: Authority) -> AsyncIterator[tuple[int, list[str]]]:
    """Accepts clients with a certificate of the authority: its port, and the names of those that came."""
    seen: list[str] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    own = authority.issue("server")
    context.load_cert_chain(own.certificate, own.key)
    context.verify_mode = ssl.CERT_REQUIRED

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subject = dict(pair for (pair,) in writer.get_extra_info("peercert")["subject"])
        seen.append(subject["commonName"])
        writer.close()

    listening = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1], seen


async def connect(port: int, context: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_the_next_connection_uses_the_renewed_certificate(authority: Authority, tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.replace(authority.issue("first"))
    context = client_context(
        ca_file=str(authority.certificate), cert_file=str(files.certificate), key_file=str(files.key)
    )
    async with server(authority) as (port, seen):
        await connect(port, context)
        files.replace(authority.issue("second"))
        await connect(port, context)
        await connect(port, context)
    assert seen == ["first", "second", "second"]


async def test_a_certificate_without_its_key_is_not_used_before_the_key_is_there(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, renewed = Files(tmp_path), authority.issue("second")
    files.replace(authority.issue("first"))
    context = client_context(
        ca_file=str(authority.certificate), cert_file=str(files.certificate), key_file=str(files.key)
    )
    async with server(authority) as (port, seen):
        files.replace(renewed, key=False)
        with caplog.at_level(logging.WARNING):
            await connect(port, context)
        files.replace(renewed)
        await connect(port, context)
    assert seen == ["first", "second"]
    assert "the former ones stay" in caplog.text


async def test_a_renewed_authority_is_trusted(tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new", "the next authority")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.certificate.read_bytes())
    own = new.issue("agent")
    context = client_context(ca_file=str(trusted), cert_file=str(own.certificate), key_file=str(own.key))
    async with server(new) as (port, seen):
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(port, context)
        trusted.write_bytes(old.certificate.read_bytes() + new.certificate.read_bytes())
        await connect(port, context)
    assert seen == ["agent"]


def test_hosts_are_verified_and_a_missing_file_is_an_error_at_the_start(authority: Authority) -> None:
    context = client_context(ca_file=str(authority.certificate))
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.minimum_version == ssl.create_default_context().minimum_version
    with pytest.raises(FileNotFoundError):
        client_context(cert_file="nowhere.pem", key_file="nowhere.key")
