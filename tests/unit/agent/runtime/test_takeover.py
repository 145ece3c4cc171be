"""How partitions are taken and given up: together, within a deadline, and whatever a sink or the store does."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from agent.runtime.partitions.takeover import Takeover
from agent.runtime.pipeline import PipelineLimits
from connectors.base import Claim, Fenced
from connectors.errors import ConnectorError, TransientError
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.records import Message, Partition, Position
from tests.support.plant import A, B, events_of, filled, pipeline_on, pumps, put, run

MANY = [Partition("readings", number) for number in range(20)]


async def test_partitions_are_taken_several_at_a_time() -> None:
    running, most, taken = 0, 0, []

    async def take(partition: Partition) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        taken.append(partition)

    takeover = Takeover(take, deadline_s=10)
    takeover.add(MANY)
    await takeover.run()
    assert sorted(taken) == MANY
    assert not takeover.pending
    assert 1 < most <= 8


async def test_a_store_that_never_answers_ends_in_an_error_that_names_the_partition() -> None:
    async def take(partition: Partition) -> None:
        await asyncio.Event().wait()

    takeover = Takeover(take, deadline_s=0.01)
    takeover.add([A])
    with pytest.raises(ConnectorError, match=r"taking over readings\[0\] took longer than 0\.01 s"):
        await takeover.run()


@pytest.mark.parametrize("trouble", [TransientError("no answer"), Fenced("the group has rebalanced")])
async def test_what_passes_is_tried_again(trouble: Exception) -> None:
    tries = 0

    async def take(partition: Partition) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise trouble

    takeover = Takeover(take, deadline_s=10)
    takeover.add([A])
    await takeover.run()
    assert (tries, takeover.pending) == (2, set())


async def test_another_failure_is_raised_alone() -> None:
    async def take(partition: Partition) -> None:
        raise ConnectorError(f"no {partition}")

    takeover = Takeover(take, deadline_s=10)
    takeover.add([A])
    with pytest.raises(ConnectorError, match="no readings"):
        await takeover.run()


async def test_a_revocation_interrupts_what_is_being_taken_and_keeps_the_rest_pending() -> None:
    entered = asyncio.Event()

    async def take(partition: Partition) -> None:
        entered.set()
        await asyncio.Event().wait()

    takeover = Takeover(take, deadline_s=30)
    takeover.add([A, B])
    run = asyncio.create_task(takeover.run())
    await entered.wait()
    takeover.remove([A])
    await asyncio.wait_for(run, 60)
    assert takeover.pending == {B}


async def test_an_assignment_returns_at_once_however_slow_the_store_is() -> None:
    """Until it returns, a member of a Kafka group sends no heartbeats."""

    class Slow(MemoryWindowStore):
        answers = asyncio.Event()

        async def claim(self, partition: Partition) -> Claim:
            await self.answers.wait()
            return await super().claim(partition)

    log, store, sink = filled([1.0] * 12), Slow(), MemorySink()
    source = MemorySource(log)
    pipeline = pipeline_on(log, sink, store, source=source)
    start = asyncio.create_task(pipeline.start())
    while not pipeline._takeover.pending:  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0)
    assert source._assignment is pipeline  # `assigned` has returned, and nothing was claimed
    assert not pipeline._ownership.partitions
    store.answers.set()
    await asyncio.wait_for(start, 60)
    assert set(pipeline._ownership.partitions) == {A, B}
    await pipeline.close()


class Hanging(MemorySink):
    """A sink that does not answer while it hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.answers, self.entered = asyncio.Event(), asyncio.Event()
        self.answers.set()

    async def write(self, messages: Sequence[Message]) -> None:
        if not self.answers.is_set():
            self.entered.set()
        await self.answers.wait()
        await super().write(messages)


@pytest.mark.parametrize("who", ["the loop", "the revocation"])
async def test_a_sink_that_hangs_during_a_rebalance_does_not_end_the_agent(who: str) -> None:
    """Whoever waits for it, the partition is given up without a checkpoint, and its next owner repeats the events."""
    log, store, sink = filled([1.0] * 9), MemoryWindowStore(), Hanging()
    limits = PipelineLimits(max_records=50, poll_timeout_s=0.01, revoke_deadline_s=0.1, checkpoint_every_s=1e9)
    group, source = pumps(policy="all"), MemorySource(log)
    pipeline = pipeline_on(log, sink, store, source=source, limits=limits, group=group)
    await pipeline.start()
    sink.answers.clear()
    for step in range(9, 30):
        put(log, "p1", 100 + step, 1.0)
    steps = asyncio.create_task(_steps(pipeline.step, sink.entered, stop=who != "the loop"))
    await asyncio.wait_for(sink.entered.wait() if who == "the loop" else steps, 60)
    await asyncio.wait_for(source.reassign([B]), 60)
    assert set(pipeline._ownership.partitions) == {B}
    committed = log.commits.get(A)
    assert committed is not None
    assert committed.offset == 0
    other = MemorySink()
    _, successor = await run(log, sink=other, store=store, group=group)
    sink.answers.set()
    if who == "the loop":
        await asyncio.wait_for(steps, 60)
    for _ in range(3):
        await pipeline.step()
    await pipeline.checkpoint()
    await pipeline.close()
    whole = events_of((await run(filled([1.0] * 30), group=group))[1])
    assert events_of(successor) == whole
    assert events_of(sink).items() <= whole.items()


async def _steps(step: object, entered: asyncio.Event, *, stop: bool) -> None:
    """Until the sink hangs; or some that publish nothing yet."""
    assert callable(step)
    for _ in range(1 if stop else 20):
        await step()
        if entered.is_set():
            return


async def test_a_partition_that_comes_back_while_its_takeover_was_interrupted_is_taken() -> None:
    log, store, sink = filled([1.0] * 20), MemoryWindowStore(), MemorySink()
    source = MemorySource(log)
    pipeline = pipeline_on(log, sink, store, source=source, limits=PipelineLimits(max_records=3, poll_timeout_s=0.01))
    await pipeline.start()
    await source.reassign([])
    assert not pipeline._ownership.partitions
    await source.reassign([A])
    assert not pipeline._ownership.partitions
    await pipeline.step()
    assert set(pipeline._ownership.partitions) == {A}
    await pipeline.close()


async def test_a_bounded_source_does_not_end_before_its_partitions_are_taken() -> None:
    log = MemoryLog([A])
    for step in range(12):
        put(log, "p1", 100 + step, 1.0)
    store, sink = MemoryWindowStore(), MemorySink()
    await run(log, sink=sink, store=store)
    store.flush()
    pipeline, _ = await run(log, sink=sink, store=store)
    assert pipeline.counters.records > 0  # rebuilt, although the commit is at the end of the log


async def test_who_was_removed_from_the_group_does_not_take_the_claim_from_the_rightful_owner() -> None:
    """The group is asked first; a member that it does not know any more waits for its next assignment."""

    class Removed(MemorySource):
        refusals = 2

        async def commit(self, positions: Mapping[Partition, Position]) -> None:
            if self.refusals:
                self.refusals -= 1
                raise Fenced("commit refused: the group has rebalanced")
            await super().commit(positions)

    log, store, sink = filled([1.0] * 12), MemoryWindowStore(), MemorySink()
    await run(log, store=store, sink=sink)
    claims = {A: store._claims[A].epoch, B: store._claims[B].epoch}
    source = Removed(log)
    pipeline = pipeline_on(log, sink, store, source=source)
    start = asyncio.create_task(pipeline.start())
    while source.refusals:  # noqa: ASYNC110  # there is no event for it
        await asyncio.sleep(0)
    assert {A: store._claims[A].epoch, B: store._claims[B].epoch} == claims
    await asyncio.wait_for(start, 60)
    assert store._claims[A].epoch == claims[A] + 1
    await pipeline.close()


async def test_a_partition_may_be_given_up_while_states_are_published_again() -> None:
    log, store, sink = filled([1.0] * 12), MemoryWindowStore(), Hanging()
    for step in range(12):
        put(log, "p2", 100 + step, 1.0, partition=B)
    limits = PipelineLimits(
        max_records=50, poll_timeout_s=0.01, revoke_deadline_s=0.05, checkpoint_records=1, republish_states_every_s=0
    )
    source = MemorySource(log)
    pipeline = pipeline_on(log, sink, store, source=source, limits=limits)
    await pipeline.start()
    async with asyncio.timeout(60):
        while not any(owned.states["pumps"] for owned in pipeline._ownership.partitions.values()):
            await pipeline.step()
    sink.answers.clear()
    for step in range(12, 20):
        put(log, "p1", 100 + step, 1.0)
    steps = asyncio.create_task(_steps(pipeline.step, sink.entered, stop=False))
    await asyncio.wait_for(sink.entered.wait(), 60)
    await asyncio.wait_for(source.reassign([]), 60)
    await store.claim(A)
    await store.claim(B)
    sink.answers.set()
    await asyncio.wait_for(steps, 60)
    assert not pipeline._ownership.partitions
    await pipeline.close()
