"""The end of a table's recovery: no fetch runs during a seek, and no fetched record is dropped."""

import asyncio
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from agent.alarms.worker.tables import SeekFirstRecovery

INPUTS, FRESH, CHANGELOG = TP("inputs", 0), TP("inputs", 1), TP("rows-changelog", 0)


class Consumer:
    """Records the calls; offset 7 is committed in one partition, nothing in the other."""

    def __init__(self, calls: list[Any], *, assigned: set[TP]) -> None:
        self._calls, self._assigned = calls, assigned
        self._committed_offset: defaultdict[TP, int | None] = defaultdict(lambda: None)
        self._read_offset: defaultdict[TP, int | None] = defaultdict(lambda: None)
        self.subscription = SimpleNamespace(_fetch_count=0)
        self._thread = SimpleNamespace(_consumer=SimpleNamespace(_subscription=self.subscription))

    def assignment(self) -> set[TP]:
        return self._assigned

    def stop_flow(self) -> None:
        self._calls.append("stop")

    def resume_flow(self) -> None:
        self._calls.append("flow")

    def resume_partitions(self, partitions: set[TP]) -> None:
        self._calls.append(("resume", partitions))

    async def perform_seek(self) -> None:
        assert self.subscription._fetch_count == 0, "a fetch runs during the seek"
        self._calls.append("seek to commits")
        self._committed_offset[INPUTS] = self._read_offset[INPUTS] = 7

    async def earliest_offsets(self, *partitions: TP) -> dict[TP, int]:
        return dict.fromkeys(partitions, 3)

    async def seek_wait(self, offsets: dict[TP, int]) -> None:
        self._calls.append(("seek", offsets))
        self._read_offset.update(offsets)


def recovery(calls: list[Any], assigned: set[TP]) -> tuple[SeekFirstRecovery, Consumer]:
    consumer = Consumer(calls, assigned=assigned)

    async def notify() -> None:
        calls.append("notify")

    app = SimpleNamespace(
        conf=SimpleNamespace(stream_recovery_delay=0.0, broker_request_timeout=5.0),
        consumer=consumer,
        consumer_generation_id=4,
        on_rebalance_complete=SimpleNamespace(send=notify),
        flow_control=SimpleNamespace(resume=lambda: calls.append("clear the queues")),
        _fetcher=SimpleNamespace(maybe_start=notify),
        on_rebalance_end=lambda: calls.append("ready"),
    )
    tables = SimpleNamespace(
        values=list, changelog_topics={CHANGELOG.topic}, on_actives_ready=lambda: None, on_standbys_ready=lambda: None
    )
    return SeekFirstRecovery(app, tables), consumer


async def test_offsets_are_sought_before_the_streams_resume() -> None:
    calls: list[Any] = []
    found, _ = recovery(calls, {INPUTS, FRESH, CHANGELOG})
    await found.on_recovery_completed(4)
    assert calls == [
        "stop",
        "notify",
        "seek to commits",
        ("seek", {INPUTS: 7, FRESH: 3}),
        "clear the queues",
        "flow",
        ("resume", {INPUTS, FRESH}),
        "notify",
        "ready",
    ]
    assert found.expected.next == {INPUTS: 7, FRESH: 3}


async def test_a_running_fetch_is_waited_for() -> None:
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


@pytest.mark.parametrize("assigned", [{INPUTS}, set()])
async def test_after_another_rebalance_the_next_recovery_does_the_rest(assigned: set[TP]) -> None:
    calls: list[Any] = []
    found, _ = recovery(calls, assigned)
    await found.on_recovery_completed(3)
    assert calls == ["stop", "notify"]
