"""Leaving the event reader's loop ends it within a second, also when the broker no longer answers."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from agent.client import read_events
from tests.support.event_samples import samples
from tests.support.services.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]
LIMIT_S = 3.0  # one second by our own clocks; a busy machine may need the rest


@pytest.fixture
def broker(kafka_factory: Callable[..., KafkaBroker]) -> Iterator[KafkaBroker]:
    broker = kafka_factory()
    broker.create_topic("events", 2)
    yield broker
    if broker.pid is not None:
        os.kill(broker.pid, signal.SIGCONT)  # a frozen process cannot be stopped


async def fill(broker: KafkaBroker) -> None:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for one in samples().events[:20]:
            await producer.send_and_wait("events", key=one.key, value=one.value, headers=list(one.headers))


def readers() -> int:
    return sum(thread.name == "kafka-reader" for thread in threading.enumerate())


async def first_event(events: Any) -> None:
    async with asyncio.timeout(120):
        await anext(events)


async def test_a_cancelled_or_left_loop_ends_in_time_whatever_the_broker_does(broker: KafkaBroker) -> None:
    await fill(broker)
    for group in ("maintenance", None):
        await check_cancel(broker, group)
    assert broker.pid is not None
    frozen = [read_events(broker.bootstrap, group=group) for group in ("frozen", None)]
    for events in frozen:
        await first_event(events)
    os.kill(broker.pid, signal.SIGSTOP)
    for events in frozen:
        began = time.monotonic()
        await events.aclose()
        assert time.monotonic() - began < LIMIT_S
    os.kill(broker.pid, signal.SIGCONT)
    gone = read_events(broker.bootstrap, group="gone")
    await first_event(gone)
    broker.kill()
    began = time.monotonic()
    await gone.aclose()
    assert time.monotonic() - began < LIMIT_S
    async with asyncio.timeout(120):
        while readers():  # noqa: ASYNC110  # threads have no event to wait for
            await asyncio.sleep(0.1)


async def check_cancel(broker: KafkaBroker, group: str | None) -> None:
    """While it waits for the next event, which does not come."""
    reading = asyncio.Event()

    async def read() -> None:
        async for _ in read_events(broker.bootstrap, group=group):
            reading.set()

    task = asyncio.create_task(read())
    async with asyncio.timeout(120):
        await reading.wait()
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < LIMIT_S


async def test_a_start_that_never_succeeds_can_be_cancelled() -> None:
    """The address takes connections and answers nothing."""

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(writer)

    callers: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(hold, "127.0.0.1", 0) as silent:
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        events = read_events(address, group="x")
        task = asyncio.create_task(anext(events))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < LIMIT_S
        for writer in callers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
