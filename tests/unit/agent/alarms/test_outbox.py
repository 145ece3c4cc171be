"""What was applied waits for the broker together, in order, and no more of it than the limit."""

import asyncio
from typing import Any

import pytest

from agent.alarms.worker.app import Outbox
from agent.alarms.worker.consoles import AppliedInput


async def put(outbox: Outbox, *names: str) -> None:
    for name in names:
        await outbox.wait_for_room()
        outbox.add(name, AppliedInput())
        await outbox.announce()


async def taken(outbox: Outbox) -> list[Any]:
    async with outbox.take() as found:
        return [event for event, _ in found]


async def test_what_arrived_meanwhile_is_taken_together_and_in_order() -> None:
    outbox = Outbox(10)
    await put(outbox, "a")
    async with outbox.take() as first:
        await put(outbox, "b", "c")
    assert [event for event, _ in first] == ["a"]
    assert await taken(outbox) == ["b", "c"]


async def test_a_full_outbox_makes_inputs_wait_until_something_is_taken() -> None:
    outbox = Outbox(2)
    await put(outbox, "a", "b")
    third = asyncio.create_task(put(outbox, "c"))
    await asyncio.sleep(0)
    assert not third.done()
    assert await taken(outbox) == ["a", "b"]
    await third
    assert await taken(outbox) == ["c"]


async def test_an_outbox_is_empty_only_when_what_was_taken_is_published() -> None:
    outbox = Outbox(2)
    await put(outbox, "a")
    async with outbox.take():
        empty = asyncio.create_task(outbox.wait_until_empty())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not empty.done()
    await empty


async def test_nobody_waits_for_what_could_not_be_published() -> None:
    """The worker ends then, and the inputs are read again."""
    outbox = Outbox(2)
    await put(outbox, "a")
    with pytest.raises(OSError, match="gone"):
        async with outbox.take():
            raise OSError("the broker is gone")
    await asyncio.wait_for(outbox.wait_until_empty(), 60)
