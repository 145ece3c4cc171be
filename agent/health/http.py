"""Health checks and metrics over HTTP: /livez, /readyz, /metrics."""

import errno
import hmac
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent.errors import SettingsError
from agent.health.metrics import CONTENT_TYPE, exposition
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus

log = structlog.get_logger()

_BACKLOG = 64
_LOOP_BLOCKED_AFTER_S = 10.0
_GRACE_S = 1


@dataclass(frozen=True, slots=True)
class Check:
    """One condition; `detail` says why it is met or not, for people."""

    name: str
    ok: bool
    detail: str


def liveness(progress: Progress, status: RuntimeStatus, *, no_progress_s: float) -> list[Check]:
    """The event loop runs, and work advances where there is some."""
    age_s = None if status.last_tick_s is None else status.clock() - status.last_tick_s
    running = age_s is None or age_s < _LOOP_BLOCKED_AFTER_S
    tick = "no tick yet" if age_s is None else f"last tick {age_s:.2f} s ago"
    return [
        Check("event_loop", running, tick),
        Check("progress", progress.stuck_for_s < no_progress_s, _describe_progress(progress, no_progress_s)),
    ]


def readiness(status: RuntimeStatus) -> list[Check]:
    """Partitions are assigned, the models are loaded, the store answers."""
    owned = len(status.partitions)
    store = {None: "the store was not called yet", True: "the store answers", False: "the store does not answer"}
    return [
        Check("partitions", owned > 0, f"{owned} assigned" if owned else "no partition is assigned"),
        Check("model", status.models_loaded, "loaded" if status.models_loaded else "not loaded yet"),
        Check("store", bool(status.store_reachable), store[status.store_reachable]),
    ]


def _describe_progress(progress: Progress, limit_s: float) -> str:
    if progress.waiting_for_store:
        return "reading waits for the store"
    if progress.caught_up:
        return "nothing to do"
    lag = "an unknown number of" if progress.total_lag is None else str(progress.total_lag)
    queued = f" and {progress.queued_batches} batches to publish" if progress.queued_batches else ""
    return f"{lag} records to read{queued}, last progress {progress.stuck_for_s:.1f} s ago (limit {limit_s:.0f} s)"


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


class HealthPages:
    """Where a token is set, metrics and details need it; the two probes answer everybody with one word."""

    def __init__(
        self,
        progress: Progress,
        status: RuntimeStatus,
        registry: CollectorRegistry,
        *,
        no_progress_s: float,
        token: str | None = None,
    ) -> None:
        self._progress, self._status, self._registry = progress, status, registry
        self._no_progress_s, self._token = no_progress_s, token

    def app(self) -> Starlette:
        pages = {"/livez": self.livez, "/readyz": self.readyz, "/metrics": self.metrics}
        return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])

    async def livez(self, request: Request) -> Response:
        return self._answer(request, liveness(self._progress, self._status, no_progress_s=self._no_progress_s))

    async def readyz(self, request: Request) -> Response:
        return self._answer(request, readiness(self._status))

    async def metrics(self, request: Request) -> Response:
        if not self._may_read(request):
            return JSONResponse({"error": "a bearer token is required"}, 401, {"WWW-Authenticate": "Bearer"})
        return Response(exposition(self._registry), media_type=CONTENT_TYPE)

    def _answer(self, request: Request, checks: Sequence[Check]) -> Response:
        ok = all(check.ok for check in checks)
        body: dict[str, object] = {"status": "ok" if ok else "failing"}
        if self._may_read(request):
            body["checks"] = {check.name: {"ok": check.ok, "detail": check.detail} for check in checks}
        return JSONResponse(body, 200 if ok else 503, {"Cache-Control": "no-store"})

    def _may_read(self, request: Request) -> bool:
        if self._token is None:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())


class _Server(uvicorn.Server):
    """Leaves the signal handlers alone: the agent has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: Starlette, listener: socket.socket) -> None:
    """Runs until cancelled; then open requests get a moment and the socket is closed."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(config)
    host, port = listener.getsockname()[:2]
    log.info("serving health and metrics", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        await server.serve(sockets=[listener])
    finally:
        if server.started:
            await server.shutdown(sockets=[listener])
