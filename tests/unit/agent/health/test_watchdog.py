"""The watchdog's decision by hand, its looks with a moved clock, and a whole pipeline whose source gets stuck."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from agent.health.loop_delay import measure_loop_delay
from agent.health.status import RuntimeStatus
from agent.health.watchdog import Advice, Stuck, Watchdog, advise
from agent.runtime.alongside import first_failure, run_with_helpers
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
    """A pipeline that says what it is told to say, at a time that is moved by hand."""

    def __init__(self, lag: int | None) -> None:
        self.now, self.behind, self.restarts = 0.0, lag, 0
        self.vitals = RuntimeStatus(lambda: self.now)

    async def lag(self) -> Mapping[Partition, int] | None:
        if self.behind is None:
            raise ConnectorError("cannot read the end of the log")
        return {HOME: self.behind}

    async def look_after_store(self) -> None: ...

    def restart_source(self) -> None:
        self.restarts += 1


def guarded(patient: Scripted) -> tuple[Watchdog, list[str]]:
    ends: list[str] = []
    return Watchdog(patient, limit_s=60.0, at_the_latest=ends.append), ends


@pytest.mark.parametrize(("lag", "words"), [(9, "9 records are waiting"), (None, "the lag is not known")])
async def test_without_progress_the_source_is_restarted_once_and_then_the_agent_ends(
    lag: int | None, words: str
) -> None:
    patient = Scripted(lag)
    watchdog, ends = guarded(patient)
    for patient.now in (0.0, 30.0, 59.0):
        await watchdog.look()
    assert patient.restarts == 0
    for patient.now in (60.0, 90.0, 119.0):
        await watchdog.look()
    assert patient.restarts == patient.vitals.source_restarts == 1
    patient.now = 120.0
    with pytest.raises(Stuck, match=f"no progress for 120 s, also after a restart; {words}"):
        await watchdog.look()
    assert len(ends) == 1


async def test_a_quiet_stream_never_wakes_the_watchdog() -> None:
    patient = Scripted(0)
    watchdog, _ = guarded(patient)
    for patient.now in (0.0, 1000.0, 2000.0):
        await watchdog.look()
    assert patient.restarts == 0


async def test_progress_in_time_keeps_it_quiet_however_long_the_lag() -> None:
    patient = Scripted(1_000_000)
    watchdog, _ = guarded(patient)
    for patient.now in range(0, 600, 50):
        patient.vitals.progressed()
        await watchdog.look()
    assert patient.restarts == 0


async def test_a_lag_that_never_answers_does_not_hold_up_the_watchdog() -> None:
    class Mute(Scripted):
        async def lag(self) -> Mapping[Partition, int] | None:
            await asyncio.Event().wait()
            return None

    patient = Mute(1)
    patient.now = 1.0
    await Watchdog(patient, limit_s=0.1, at_the_latest=print).look()
    assert patient.vitals.lag is None


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

    watchdog = Watchdog(agent, limit_s=0.1, at_the_latest=print)
    async with asyncio.timeout(5):
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
    watchdog = Watchdog(agent, limit_s=0.1, at_the_latest=ends.append)
    with pytest.raises(Stuck, match="33 records are waiting"):
        async with asyncio.timeout(5):
            await run_with_helpers(agent.run(asyncio.Event()), [watchdog.watch()])
    assert source.starts == 2
    assert ends


async def test_a_model_that_hangs_on_the_last_batch_is_noticed() -> None:
    patient = Scripted(0)
    patient.vitals.queued(batches=1, windows=5)
    watchdog, _ = guarded(patient)
    for patient.now in (0.0, 59.0, 60.0):
        await watchdog.look()
    assert patient.restarts == 1


async def test_helpers_end_with_the_work() -> None:
    ended = asyncio.Event()

    async def helper() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert await run_with_helpers(asyncio.sleep(0.01, "done"), [helper()]) == "done"
    assert ended.is_set()


async def test_an_error_of_the_work_comes_out_plain_and_keeps_its_cause() -> None:
    async def work() -> None:
        try:
            raise OSError("down")
        except OSError as error:
            raise ConnectorError("gone") from error

    with pytest.raises(ConnectorError) as caught:
        await run_with_helpers(work(), [asyncio.sleep(60)])
    assert isinstance(caught.value.__cause__, OSError)


def test_of_several_failures_ours_is_told_however_deep() -> None:
    ours = ConnectorError("gone")
    group = BaseExceptionGroup("", [ValueError("bug"), ExceptionGroup("", [ours])])
    assert first_failure(group) is ours


def test_a_bug_alone_is_told_as_it_is() -> None:
    bug = ValueError("bug")
    assert first_failure(ExceptionGroup("", [bug])) is bug


async def test_a_blocked_loop_shows_in_the_heartbeat() -> None:
    vitals = RuntimeStatus()

    async def blocking() -> None:
        await asyncio.sleep(0.02)
        time.sleep(0.1)  # noqa: ASYNC251  # blocking the loop is the point
        await asyncio.sleep(0.02)

    await run_with_helpers(blocking(), [measure_loop_delay(vitals, period_s=0.01)])
    assert 0.08 < vitals.loop_delay_peak.value(vitals.clock()) < 1.0
    assert sum(vitals.loop_delay.counts) >= 2


async def test_cancelling_the_whole_ends_work_and_helpers_without_a_group() -> None:
    task = asyncio.create_task(run_with_helpers(asyncio.sleep(60), [asyncio.sleep(60)]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_clean_up_that_hangs_too_does_not_keep_the_process() -> None:
    program = (
        "import time; from agent.health import watchdog; watchdog.end_by_force('stuck', after_s=0.05); time.sleep(60)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert "the process ends at once" in ended.stdout + ended.stderr
