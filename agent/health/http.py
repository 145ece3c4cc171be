"""/livez, /readyz and /metrics over HTTP: is the agent getting on, may work be sent to it, and the figures."""

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
from agent.health.status import RuntimeStatus

log = structlog.get_logger()

_BACKLOG = 64
_LOOP_SILENT_AFTER_S = 10.0
_GRACE_S = 1


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer; `detail` says why, for people."""

    name: str
    ok: bool
    detail: str


def liveness(vitals: RuntimeStatus, *, no_progress_s: float) -> list[Check]:
    """The loop turns, and where there is lag there is progress."""
    beat_age = None if vitals.last_beat is None else vitals.clock() - vitals.last_beat
    turning = beat_age is None or beat_age < _LOOP_SILENT_AFTER_S
    beat = "no beat yet" if beat_age is None else f"last beat {beat_age:.2f} s ago"
    return [
        Check("event_loop", turning, beat),
        Check("progress", vitals.stuck_for_s < no_progress_s, _progress(vitals, no_progress_s)),
    ]


def readiness(vitals: RuntimeStatus) -> list[Check]:
    """Partitions are assigned, the models are loaded, the store answers."""
    held = len(vitals.holdings)
    words = {None: "the store was not asked yet", True: "the store answers", False: "the store does not answer"}
    return [
        Check("partitions", held > 0, f"{held} assigned" if held else "no partition is assigned"),
        Check("model", vitals.models_loaded, "loaded" if vitals.models_loaded else "not loaded yet"),
        Check("store", bool(vitals.store_reachable), words[vitals.store_reachable]),
    ]


def _progress(vitals: RuntimeStatus, limit_s: float) -> str:
    if vitals.waiting_for_store:
        return "reading waits for the store"
    if vitals.idle:
        return "nothing to do"
    lag = "an unknown number of" if vitals.total_lag is None else str(vitals.total_lag)
    queued = f" and {vitals.queued_batches} batches to publish" if vitals.queued_batches else ""
    return f"{lag} records to read{queued}, last progress {vitals.stuck_for_s:.1f} s ago (limit {limit_s:.0f} s)"


def listen(host: str, port: int) -> socket.socket:
    """Take the address now, so that a taken one is known before anything is connected. Raises `SettingsError`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"http.host: cannot use {host}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        hint = "choose another one, or 0 for any free one"
        raise SettingsError(f"http.port: cannot listen on {host}:{port}: {error.strerror}; {hint}") from error
    listener.setblocking(False)
    return listener


class HealthPages:
    """With a token, figures and reasons are for those who have it; the two probes answer anybody with one word."""

    def __init__(
        self, vitals: RuntimeStatus, registry: CollectorRegistry, *, no_progress_s: float, token: str | None = None
    ) -> None:
        self._vitals, self._registry = vitals, registry
        self._no_progress_s, self._token = no_progress_s, token

    def app(self) -> Starlette:
        pages = {"/livez": self.livez, "/readyz": self.readyz, "/metrics": self.metrics}
        return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])

    async def livez(self, request: Request) -> Response:
        return self._answer(request, liveness(self._vitals, no_progress_s=self._no_progress_s))

    async def readyz(self, request: Request) -> Response:
        return self._answer(request, readiness(self._vitals))

    async def metrics(self, request: Request) -> Response:
        if not self._may_read(request):
            return JSONResponse({"error": "bearer token needed"}, 401, {"WWW-Authenticate": "Bearer"})
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
    """Signals are the agent's own business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: Starlette, listener: socket.socket) -> None:
    """Until cancelled; then open answers get a moment and the socket is closed."""
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
    log.info("health and metrics", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        await server.serve(sockets=[listener])
    finally:
        if server.started:
            await server.shutdown(sockets=[listener])
