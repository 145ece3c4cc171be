"""The end of `page`: a cancellation that a library swallows is repeated."""

import asyncio

import pytest

from agent.cli import page


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_CANCEL_AGAIN_S", 0.01)
    swallowed = 0

    async def reads() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed > 1:
                    raise

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(reads())

    running = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await page._cancel(running)
    assert running.cancelled()
    assert swallowed == 2
