"""The end of a table's recovery: nothing is fetched while places move, and nothing is emptied after it was fetched."""

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from agent.alarms.worker.tables import OrderlyRecovery

INPUTS, FRESH, CHANGELOG = TP("inputs", 0), TP("inputs", 1), TP("rows-changelog", 0)


class Consumer:
    """A consumer that writes down what is asked of it; 7 is committed in one partition, nothing in the other."""

    def __init__(self, calls: list[Any], *, held: set[TP]) -> None:
        self._calls, self._held = calls, held
        self._committed_offset: defaultdict[TP, int | None] = defaultdict(lambda: None)
        self._read_offset: defaultdict[TP, int | None] = defaultdict(lambda: None)
        self.subscription = SimpleNamespace(_fetch_count=0)
        self._thread = SimpleNamespace(_consumer=SimpleNamespace(_subscription=self.subscription))

    def assignment(self) -> set[TP]:
        return self._held

    def stop_flow(self) -> None:
        self._calls.append("stop")

    def resume_flow(self) -> None:
        self._calls.append("flow")

    def resume_partitions(self, places: set[TP]) -> None:
        self._calls.append(("resume", places))

    async def perform_seek(self) -> None:
        assert self.subscription._fetch_count == 0, "somebody fetches while places move"
        self._calls.append("seek to commits")
        self._committed_offset[INPUTS] = self._read_offset[INPUTS] = 7

    async def earliest_offsets(self, *places: TP) -> dict[TP, int]:
        return dict.fromkeys(places, 3)

    async def seek_wait(self, offsets: dict[TP, int]) -> None:
        self._calls.append(("seek", offsets))
        self._read_offset.update(offsets)


def recovery(calls: list[Any], held: set[TP]) -> tuple[OrderlyRecovery, Consumer]:
    consumer = Consumer(calls, held=held)

    async def quietly() -> None:
        calls.append("told")

    app = SimpleNamespace(
        conf=SimpleNamespace(stream_recovery_delay=0.0, broker_request_timeout=5.0),
        consumer=consumer,
        consumer_generation_id=4,
        on_rebalance_complete=SimpleNamespace(send=quietly),
        flow_control=SimpleNamespace(resume=lambda: calls.append("empty the queues")),
        _fetcher=SimpleNamespace(maybe_start=quietly),
        on_rebalance_end=lambda: calls.append("ready"),
    )
    tables = SimpleNamespace(
        values=list, changelog_topics={CHANGELOG.topic}, on_actives_ready=lambda: None, on_standbys_ready=lambda: None
    )
    return OrderlyRecovery(app, tables), consumer


async def test_places_are_sought_before_anything_is_resumed() -> None:
    calls: list[Any] = []
    found, _ = recovery(calls, {INPUTS, FRESH, CHANGELOG})
    await found.on_recovery_completed(4)
    assert calls == [
        "stop",
        "told",
        "seek to commits",
        ("seek", {INPUTS: 7, FRESH: 3}),
        "empty the queues",
        "flow",
        ("resume", {INPUTS, FRESH}),
        "told",
        "ready",
    ]
    assert found.sequence.next == {INPUTS: 7, FRESH: 3}


async def test_a_fetch_under_way_is_waited_for() -> None:
    calls: list[Any] = []
    found, consumer = recovery(calls, {INPUTS})
    consumer.subscription._fetch_count = 1
    asyncio.get_running_loop().call_later(0.03, setattr, consumer.subscription, "_fetch_count", 0)
    await found.on_recovery_completed(4)
    assert "seek to commits" in calls


async def test_a_worker_without_partitions_stays_stopped() -> None:
    calls: list[Any] = []
    found, _ = recovery(calls, set())
    await found.on_recovery_completed(4)
    assert "flow" not in calls
    assert calls[-1] == "ready"


@pytest.mark.parametrize("held", [{INPUTS}, set()])
async def test_another_rebalance_leaves_everything_to_the_next_recovery(held: set[TP]) -> None:
    calls: list[Any] = []
    found, _ = recovery(calls, held)
    await found.on_recovery_completed(3)
    assert calls == ["stop", "told"]
