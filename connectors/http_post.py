"""One POST over one connection, within one deadline: the answer's status and Retry-After, nothing else of it."""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self
from urllib.parse import quote, urlsplit

import h11

from connectors.errors import ConnectorError, TransientError

_CHUNK = 1 << 14
_PORTS = {"http": 80, "https": 443}
_TARGET = "%/?:@!$&'()*+,;=~-._"
"""Legal in a path or a query as it is; `%` because the url may be encoded already."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect and what to ask for. Only `host` and `port` are ever shown: a path may be a secret."""

    host: str
    port: int
    target: str
    tls: ssl.SSLContext | None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises `ConnectorError` when it is no address, without showing it."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").encode("idna").decode(), parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError) as error:
            raise ConnectorError(f"the url is no address: {error}") from error
        target = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_TARGET)
        return cls(host, port, target, ssl.create_default_context() if parts.scheme == "https" else None)

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """`retry_after` is the header as it came."""

    status: int
    retry_after: str | None


async def post(address: Address, headers: Sequence[tuple[str, str]], body: bytes, *, timeout_s: float) -> Answer:
    """Raises `TransientError` when nobody answers in time. Redirects are not followed: a token stays where it is."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _asked(address, headers, body)
    except TimeoutError as error:
        raise TransientError(f"{address} did not answer within {timeout_s:.3g} s") from error
    except (OSError, h11.RemoteProtocolError) as error:
        raise TransientError(f"{address}: {error}") from error


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


async def _asked(address: Address, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls)
    try:
        talk = h11.Connection(h11.CLIENT)
        writer.write(_request(talk, address, headers, body))
        await writer.drain()
        return await _answer(talk, reader)
    finally:
        writer.close()


def _request(talk: h11.Connection, address: Address, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
    ours = [("host", str(address)), ("connection", "close"), ("content-length", str(len(body)))]
    head = h11.Request(method="POST", target=address.target, headers=[*ours, *headers])
    parts = [talk.send(head), talk.send(h11.Data(data=body)), talk.send(h11.EndOfMessage())]
    return b"".join(part or b"" for part in parts)


async def _answer(talk: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    """h11 bounds the head; the body is left unread."""
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA:
            talk.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Response):
            waits = [value.decode("latin-1") for name, value in event.headers if name == b"retry-after"]
            return Answer(event.status_code, waits[0] if waits else None)
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("the connection ended without an answer")
