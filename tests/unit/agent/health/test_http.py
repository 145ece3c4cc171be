"""The three pages, requested over a real socket on the loopback."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.errors import SettingsError
from agent.health.counters import Counters
from agent.health.http import HealthPages, liveness, readiness
from agent.health.metrics import make_registry
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.runtime.lifecycle import run_with_helpers
from agent.web.access import Access
from agent.web.server import listen, serve
from connectors.records import Partition

HERE = Partition("sensors", 0)
TOKEN = "correct horse battery staple"


class HandClock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def healthy(clock: HandClock | None = None) -> tuple[Progress, RuntimeStatus]:
    clock = clock or HandClock()
    progress, status = Progress(clock), RuntimeStatus(clock, models_loaded=True, store_reachable=True)
    status.ticked(0.0)
    status.owns({HERE: 1})
    progress.lag_measured({HERE: 0})
    return progress, status


def failing(progress: Progress, status: RuntimeStatus) -> set[str]:
    checks = [*liveness(progress, status, no_progress_s=60), *readiness(status)]
    return {check.name for check in checks if not check.ok}


def test_a_healthy_agent_fails_nothing() -> None:
    assert failing(*healthy()) == set()


def test_lag_without_progress_fails_liveness_after_the_limit() -> None:
    clock = HandClock()
    progress, status = healthy(clock)
    progress.lag_measured({HERE: 5})
    clock.now += 59
    status.ticked(0.0)
    assert failing(progress, status) == set()
    clock.now += 1
    assert failing(progress, status) == {"progress"}
    details = {check.name: check.detail for check in liveness(progress, status, no_progress_s=60)}
    assert details["progress"] == "5 records to read, last progress 60.0 s ago (limit 60 s)"


def test_a_blocked_event_loop_fails_liveness() -> None:
    clock = HandClock()
    progress, status = healthy(clock)
    clock.now += 11
    progress.advanced()
    assert failing(progress, status) == {"event_loop"}


def test_without_partitions_model_or_store_the_agent_is_not_ready() -> None:
    progress, status = healthy()
    status.owns({})
    assert failing(progress, status) == {"partitions"}
    status.models_loaded = False
    status.store_reachable = False
    assert failing(progress, status) == {"partitions", "model", "store"}


def test_a_store_that_was_never_called_is_not_ready() -> None:
    progress, status = healthy()
    status.store_reachable = None
    assert failing(progress, status) == {"store"}


@asynccontextmanager
async def served(
    progress: Progress, status: RuntimeStatus, token: str | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    registry = make_registry(Counters(records=3), progress, status)
    pages = HealthPages(progress, status, registry, no_progress_s=60, access=Access(lambda: token))
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with asyncio.TaskGroup() as group, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        task = group.create_task(serve(pages.app(), listener))
        yield client
        task.cancel()


async def test_the_pages_answer_and_say_why() -> None:
    async with served(*healthy()) as client:
        live, ready = await client.get("/livez"), await client.get("/readyz")
        metrics = await client.get("/metrics")
        missing, posted = await client.get("/nothing"), await client.post("/livez", json={})
    assert live.status_code == ready.status_code == 200
    assert live.json()["checks"]["progress"] == {"ok": True, "detail": "nothing to do"}
    assert ready.json()["checks"]["partitions"]["detail"] == "1 assigned"
    families = {family.name for family in text_string_to_metric_families(metrics.text)}
    assert "anchormoe_records" in families
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert (missing.status_code, posted.status_code) == (404, 405)


async def test_an_agent_that_is_not_ready_says_so_with_503() -> None:
    progress, status = healthy()
    status.store_reachable = False
    async with served(progress, status) as client:
        ready, live = await client.get("/readyz"), await client.get("/livez")
    assert (ready.status_code, live.status_code) == (503, 200)
    assert ready.json()["status"] == "failing"
    assert ready.json()["checks"]["store"] == {"ok": False, "detail": "the store does not answer"}


@pytest.mark.parametrize("header", ["", "Bearer wrong", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer ü"])
async def test_without_the_token_there_are_no_metrics_and_no_details(header: str) -> None:
    async with served(*healthy(), TOKEN) as client:
        headers = {b"Authorization": header.encode()} if header else {}
        metrics, live = await client.get("/metrics", headers=headers), await client.get("/livez", headers=headers)
    assert metrics.status_code == 401
    assert metrics.headers["www-authenticate"] == "Bearer"
    assert (live.status_code, live.json()) == (200, {"status": "ok"})


async def test_with_the_token_all_details_are_shown() -> None:
    async with served(*healthy(), TOKEN) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        metrics, ready = await client.get("/metrics", headers=headers), await client.get("/readyz", headers=headers)
    assert metrics.status_code == 200
    assert "store" in ready.json()["checks"]


def test_a_taken_port_is_one_line_that_names_the_address() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError) as refused:
            listen("127.0.0.1", port)
    assert refused.value.problems == [
        f"http.port: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another port, or 0 for any free one"
    ]


def test_a_host_that_does_not_exist_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match=r"http\.host: cannot use no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 0)


async def test_serving_leaves_the_signals_alone_and_frees_the_port() -> None:
    before = signal.getsignal(signal.SIGTERM)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    progress, status = healthy()
    pages = HealthPages(progress, status, make_registry(Counters(), progress, status), no_progress_s=60)
    during = []

    async def look() -> None:
        await asyncio.sleep(0.05)
        during.append(signal.getsignal(signal.SIGTERM))

    await run_with_helpers(look(), [serve(pages.app(), listener)])
    assert during == [before]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
