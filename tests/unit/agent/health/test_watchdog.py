"""The watchdog's decision by hand, its checks with a moved clock, and a whole pipeline whose source gets stuck."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from agent.health.loop_delay import measure_loop_delay
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus
from agent.health.watchdog import Advice, Stuck, Watchdog, advise
from agent.runtime.lifecycle import run_with_helpers
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemorySource
from connectors.records import EVENTS, Batch, Partition
from tests.support.small_plant import HOME, feed, pipeline


@pytest.mark.parametrize(
    ("stuck_for_s", "restarts", "advice"),
    [
        (59.9, 0, Advice.WAIT),
        (60.0, 0, Advice.RESTART),
        (59.9, 1, Advice.WAIT),
        (60.0, 1, Advice.END),
        (1e9, 2, Advice.END),
    ],
)
def test_first_a_restart_then_the_end(stuck_for_s: float, restarts: int, advice: Advice) -> None:
    assert advise(stuck_for_s, limit_s=60.0, restarts=restarts) is advice


class Scripted:
    """A pipeline with a given lag, at a time that is moved by hand."""

    def __init__(self, lag: int | None) -> None:
        self.now, self.behind, self.restarts = 0.0, lag, 0
        self.progress = Progress(lambda: self.now)

    async def lag(self) -> Mapping[Partition, int] | None:
        if self.behind is None:
            raise ConnectorError("cannot read the end of the log")
        return {HOME: self.behind}

    async def probe_store(self) -> None: ...

    def restart_source(self) -> None:
        self.restarts += 1


def guarded(monitored: Scripted) -> tuple[Watchdog, list[str]]:
    ends: list[str] = []
    return Watchdog(monitored, limit_s=60.0, force_exit=ends.append), ends


@pytest.mark.parametrize(("lag", "words"), [(9, "9 records are waiting"), (None, "the lag is unknown")])
async def test_without_progress_the_source_is_restarted_once_and_then_the_agent_ends(
    lag: int | None, words: str
) -> None:
    monitored = Scripted(lag)
    watchdog, ends = guarded(monitored)
    for monitored.now in (0.0, 30.0, 59.0):
        await watchdog.check()
    assert monitored.restarts == 0
    for monitored.now in (60.0, 90.0, 119.0):
        await watchdog.check()
    assert monitored.restarts == 1
    monitored.now = 120.0
    with pytest.raises(Stuck, match=f"no progress for 120 s, even after a restart of the source; {words}"):
        await watchdog.check()
    assert len(ends) == 1


async def test_a_quiet_stream_never_wakes_the_watchdog() -> None:
    monitored = Scripted(0)
    watchdog, _ = guarded(monitored)
    for monitored.now in (0.0, 1000.0, 2000.0):
        await watchdog.check()
    assert monitored.restarts == 0


async def test_progress_in_time_keeps_it_quiet_however_long_the_lag() -> None:
    monitored = Scripted(1_000_000)
    watchdog, _ = guarded(monitored)
    for monitored.now in range(0, 600, 50):
        monitored.progress.advanced()
        await watchdog.check()
    assert monitored.restarts == 0


async def test_a_lag_that_never_answers_does_not_hold_up_the_watchdog() -> None:
    class Mute(Scripted):
        async def lag(self) -> Mapping[Partition, int] | None:
            await asyncio.Event().wait()
            return None

    monitored = Mute(1)
    monitored.now = 1.0
    await Watchdog(monitored, limit_s=0.1, force_exit=print).check()
    assert monitored.progress.lag is None


class StickySource(MemorySource):
    """Stops giving records after the first poll, as stuck consumers do: by silence, or by never coming back."""

    def __init__(self, log: MemoryLog, *, hangs: bool, cured_by_restart: bool) -> None:
        super().__init__(log)
        self._hangs, self._cured_by_restart = hangs, cured_by_restart
        self.starts, self._polls = 0, 0

    async def start(self, assignment: object) -> None:
        self.starts += 1
        await super().start(assignment)  # type: ignore[arg-type]

    async def poll(self, *, max_records: int, timeout_s: float) -> list[Batch]:
        self._polls += 1
        if self._polls == 1 or (self.starts > 1 and self._cured_by_restart):
            return await super().poll(max_records=8, timeout_s=timeout_s)
        await asyncio.sleep(3600 if self._hangs else timeout_s)
        return []


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_stuck_source_is_restarted_and_every_window_comes_out_once(hangs: bool) -> None:
    log, sink, stop = MemoryLog([HOME]), MemorySink(), asyncio.Event()
    feed(log, range(41))
    source = StickySource(log, hangs=hangs, cured_by_restart=True)
    agent = pipeline(source, sink=sink)

    async def until_done() -> None:
        while len(sink.of(EVENTS)) < 10:  # noqa: ASYNC110  # the sink has nothing to wait for
            await asyncio.sleep(0.005)
        stop.set()

    watchdog = Watchdog(agent, limit_s=0.5, force_exit=print)
    async with asyncio.timeout(60):
        await run_with_helpers(agent.run(stop), [watchdog.watch(), until_done()])
    assert source.starts == 2
    ids = [dict(message.headers)["ce_id"] for message in sink.of(EVENTS)]
    assert len(ids) == len(set(ids)) == 10


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_source_that_stays_stuck_ends_the_agent_with_one_plain_error(hangs: bool) -> None:
    log = MemoryLog([HOME])
    feed(log, range(41))
    source = StickySource(log, hangs=hangs, cured_by_restart=False)
    agent = pipeline(source)
    ends: list[str] = []
    watchdog = Watchdog(agent, limit_s=0.5, force_exit=ends.append)
    with pytest.raises(Stuck, match="33 records are waiting"):
        async with asyncio.timeout(60):
            await run_with_helpers(agent.run(asyncio.Event()), [watchdog.watch()])
    assert source.starts == 2
    assert ends


async def test_a_model_that_hangs_on_the_last_batch_is_noticed() -> None:
    monitored = Scripted(0)
    monitored.progress.queued(batches=1, windows=5)
    watchdog, _ = guarded(monitored)
    for monitored.now in (0.0, 59.0, 60.0):
        await watchdog.check()
    assert monitored.restarts == 1


async def test_a_blocked_event_loop_shows_in_the_loop_delay() -> None:
    status = RuntimeStatus()

    async def blocking() -> None:
        await asyncio.sleep(0.02)
        time.sleep(0.1)  # noqa: ASYNC251  # blocking the loop is the point
        await asyncio.sleep(0.02)

    await run_with_helpers(blocking(), [measure_loop_delay(status, period_s=0.01)])
    assert 0.08 < status.loop_delay_max.value(status.clock()) < 1.0
    assert sum(status.loop_delay.counts) >= 2


def test_a_shutdown_that_hangs_does_not_keep_the_process() -> None:
    call = "watchdog.force_exit_later('stuck', after_s=0.05)"
    program = f"import time; from agent.health import watchdog; {call}; time.sleep(60)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180)
    assert ended.returncode == 1
    assert "shutdown hung; exiting" in ended.stdout + ended.stderr
