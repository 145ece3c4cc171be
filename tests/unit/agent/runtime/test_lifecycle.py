"""How a run ends: helpers with the work, one plain error, and the garbage collector as it was."""

import asyncio
import gc
import os
import signal
import threading

import pytest

from agent.runtime.lifecycle import ExitDeadline, first_failure, gc_tuning, run_with_helpers, stop_on_signals
from connectors.errors import ConnectorError


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


def test_of_several_failures_the_expected_one_is_raised_however_deep() -> None:
    ours = ConnectorError("gone")
    group = ExceptionGroup("", [ValueError("bug"), ExceptionGroup("", [ours])])
    assert first_failure(group) is ours


def test_a_bug_alone_is_raised_as_it_is() -> None:
    bug = ValueError("bug")
    assert first_failure(ExceptionGroup("", [bug])) is bug


async def test_cancelling_the_whole_ends_work_and_helpers_without_a_group() -> None:
    task = asyncio.create_task(run_with_helpers(asyncio.sleep(60), [asyncio.sleep(60)]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_collector_is_left_as_it_was_found() -> None:
    before = gc.get_threshold()
    with gc_tuning():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_the_collector_is_left_as_it_was_found_after_a_failure() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="on purpose"), gc_tuning():
        raise ValueError("on purpose")
    assert gc.get_threshold() == before


def test_an_end_that_hangs_is_cut_short_with_a_loud_line(capfd: pytest.CaptureFixture[str]) -> None:
    codes, ended = list[int](), threading.Event()

    def exit_now(code: int) -> None:
        codes.append(code)
        ended.set()

    deadline = ExitDeadline(0.01, exit_now)
    deadline.start()
    deadline.start()
    assert ended.wait(60)
    assert codes == [1]
    assert "error: shutdown took longer than 0.01 s; the process ends now" in capfd.readouterr().err


def test_an_end_in_time_is_left_alone() -> None:
    codes = list[int]()
    deadline = ExitDeadline(0.05, codes.append)
    deadline.start()
    deadline.cancel()
    for timer in [each for each in threading.enumerate() if isinstance(each, threading.Timer)]:
        timer.join(60)
    assert codes == []


async def test_the_deadline_begins_with_the_first_signal() -> None:
    stop, ended = asyncio.Event(), threading.Event()
    with stop_on_signals(stop, ExitDeadline(0.01, lambda code: ended.set())):
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        assert await asyncio.to_thread(ended.wait, 10)
