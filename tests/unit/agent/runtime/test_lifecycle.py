"""How a run ends: helpers with the work, one plain error, and the garbage collector as it was."""

import asyncio
import gc

import pytest

from agent.runtime.lifecycle import first_failure, gc_tuning, run_with_helpers
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
