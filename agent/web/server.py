"""Serves an application over HTTP or HTTPS, behind the guard; certificates are read again when they change."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from agent.errors import SettingsError
from agent.web.connections import MAX_HEAD_BYTES, LimitedConfig, LimitedProtocol
from agent.web.guard import Guard, Refusals

log = structlog.get_logger()

_BACKLOG = 64
_GRACE_S = 1
_HANDSHAKE_S = 5.0
_CERTIFICATE_CHECK_S = 2.0


@dataclass(frozen=True, slots=True)
class Serving:
    """`hosts`: names by which clients call the server, besides its address. With a certificate it speaks HTTPS.

    `max_connections` is None for the usual number. `before_stop` ends answers that have no end of their own, so that
    stopping need not wait for them.
    """

    hosts: frozenset[str] = frozenset()
    cert_file: Path | None = None
    key_file: Path | None = None
    refusals: Refusals = field(default_factory=Refusals)
    max_connections: int | None = None
    before_stop: Callable[[], None] = lambda: None


def make_app(routes: list[BaseRoute]) -> Starlette:
    """An application whose errors are JSON, like its answers."""
    return Starlette(routes=routes, exception_handlers={HTTPException: _error})


def _error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def listen(host: str, port: int) -> socket.socket:
    """Bind now, so that a port in use is reported before anything is connected. Raises `SettingsError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        may_pass = error.errno == socket.EAI_AGAIN
        raise SettingsError(f"http.host: cannot use {host}: {error.strerror or error}", may_pass=may_pass) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        hint = "choose another port, or 0 for any free one"
        # The process before us may still hold the port, and an address may come up later.
        may_pass = error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
        wrong = f"http.port: cannot listen on {host}:{port}: {error.strerror}; {hint}"
        raise SettingsError(wrong, may_pass=may_pass) from error
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket, *, tls: bool) -> str:
    """Where a client on this machine finds the server."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # not bound to here
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


async def serve(app: Starlette, listener: socket.socket, serving: Serving | None = None) -> None:
    """Runs until cancelled; then open requests get a moment and the socket is closed."""
    serving = serving or Serving()
    config = LimitedConfig(
        Guard(app, serving.hosts, serving.refusals),
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=_GRACE_S,
    )
    if serving.max_connections is not None:
        config.max_connections = serving.max_connections
    certificate = None if serving.cert_file is None else Certificate(serving.cert_file, serving.key_file)
    server = _Server(config, None if certificate is None else certificate.context)
    log.info("serving health and metrics", url=address_of(listener, tls=certificate is not None))
    try:
        async with asyncio.TaskGroup() as group:
            watching = None if certificate is None else group.create_task(certificate.watch())
            await server.serve(sockets=[listener])
            if watching is not None:
                watching.cancel()
    finally:
        serving.before_stop()
        if server.started:
            await server.shutdown(sockets=[listener])


class Certificate:
    """A server's certificate and key. New connections use the files as they are then."""

    def __init__(self, cert_file: Path, key_file: Path | None) -> None:
        """Raises SettingsError if the files are not a certificate and its key."""
        self._files = (cert_file, key_file or cert_file)
        self._seen = self._fingerprint()
        try:
            self.context = self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        except (OSError, ValueError) as error:
            raise SettingsError(f"http.cert_file: {cert_file}: {_reason(error)}") from error
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2

    async def watch(self) -> None:
        """Until cancelled. A pair of files that does not fit, such as one that is half replaced, changes nothing."""
        while True:
            await asyncio.sleep(_CERTIFICATE_CHECK_S)
            seen = self._fingerprint()
            if seen == self._seen:
                continue
            try:
                self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
                self._load(self.context)
            except (OSError, ValueError) as error:
                log.warning("the new certificate cannot be used; the old one stays", reason=_reason(error))
            else:
                log.info("certificate read again", file=str(self._files[0]))
            self._seen = seen

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        certificate, key = self._files
        context.load_cert_chain(certificate, key, password=_no_password)
        return context

    def _fingerprint(self) -> tuple[object, ...]:
        return tuple(_file_fingerprint(path) for path in self._files)


def _no_password() -> str:
    """Instead of OpenSSL's question on the terminal."""
    raise ValueError("the key is encrypted; store it without a password, with mode 0600")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error) or type(error).__name__


def _file_fingerprint(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino


class _Server(uvicorn.Server):
    """Leaves the signal handlers alone, because the agent has its own, and gives TLS handshakes a time-out."""

    def __init__(self, config: LimitedConfig, context: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._context = context

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        def connect() -> asyncio.Protocol:
            assert isinstance(self.config, LimitedConfig)
            return LimitedProtocol(config=self.config, server_state=self.server_state, app_state={})

        timeout_s = None if self._context is None else _HANDSHAKE_S
        self.servers = [
            await asyncio.get_running_loop().create_server(
                connect, sock=listener, ssl=self._context, ssl_handshake_timeout=timeout_s, backlog=_BACKLOG
            )
            for listener in sockets or ()
        ]
        self.started = True
