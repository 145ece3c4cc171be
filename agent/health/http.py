"""Health checks and metrics over HTTP: /livez, /readyz, /metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from agent.health.metrics import CONTENT_TYPE, exposition
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.web.access import Access
from agent.web.server import make_app

_LOOP_BLOCKED_AFTER_S = 10.0


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


class HealthPages:
    """Where a token or users are set, metrics and details need them; the two probes answer everybody with one word."""

    def __init__(
        self,
        progress: Progress,
        status: RuntimeStatus,
        registry: CollectorRegistry,
        *,
        no_progress_s: float,
        access: Access | None = None,
    ) -> None:
        self._progress, self._status, self._registry = progress, status, registry
        self._no_progress_s, self._access = no_progress_s, access or Access()

    def app(self, others: Sequence[BaseRoute] = ()) -> Starlette:
        """With the routes of others, which are served at the same address."""
        pages = {"/livez": self.livez, "/readyz": self.readyz, "/metrics": self.metrics}
        return make_app([*(Route(path, page, methods=["GET"]) for path, page in pages.items()), *others])

    async def livez(self, request: Request) -> Response:
        return self._answer(request, liveness(self._progress, self._status, no_progress_s=self._no_progress_s))

    async def readyz(self, request: Request) -> Response:
        return self._answer(request, readiness(self._status))

    async def metrics(self, request: Request) -> Response:
        self._access.require(request, "view")
        return Response(exposition(self._registry), media_type=CONTENT_TYPE)

    def _answer(self, request: Request, checks: Sequence[Check]) -> Response:
        ok = all(check.ok for check in checks)
        body: dict[str, object] = {"status": "ok" if ok else "failing"}
        if self._access.find(request) is not None:
            body["checks"] = {check.name: {"ok": check.ok, "detail": check.detail} for check in checks}
        return JSONResponse(body, 200 if ok else 503)
