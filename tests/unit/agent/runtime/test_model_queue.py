"""Windows wait for the model: for more windows while it is free, for the end of its call while it works."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from agent.events.outgoing import BatchResult
from agent.events.scoring import ScoredBatches
from agent.health.status import RuntimeStatus
from agent.runtime.model_queue import Assembler, ModelLimits, ModelQueue, Results
from agent.windows.asset_state import AssetState
from agent.windows.ingest import DueWindow, Ingested
from connectors.records import Partition

HERE = Partition("readings", 0)


class SlowAssembler:
    """Finds nothing in the groups it is given; each call waits until it is released."""

    def __init__(self) -> None:
        self.calls: list[list[str] | tuple[object, ...]] = []
        self.release = threading.Semaphore(0)

    def classify(self, batches: Sequence[Ingested], progressed: Callable[[], None]) -> ScoredBatches:
        assert self.release.acquire(timeout=60)
        progressed()
        return [[] for _ in batches]

    def assemble(
        self, batches: Sequence[Ingested], scored: ScoredBatches, progressed: Callable[[], None]
    ) -> list[BatchResult]:
        assert len(scored) == len(batches)
        self.calls.append([batch.group for batch in batches])
        return [BatchResult(batch.group, [], [], {}) for batch in batches]

    def restore(self, partition: Partition, states: Mapping[str, Mapping[str, AssetState]]) -> None:
        self.calls.append(("restore", partition, states))

    def forget(self, partition: Partition) -> None:
        self.calls.append(("forget", partition))


@pytest.fixture
def model() -> SlowAssembler:
    return SlowAssembler()


def part(name: str, windows: int = 1) -> Ingested:
    due = [DueWindow("p1", end, end, np.zeros((1, 1), np.float32), complete=True) for end in range(windows)]
    return Ingested(name, HERE, due=due)


def queue(
    model: Assembler,
    clock: Callable[[], float] = lambda: 0.0,
    *,
    batch: int = 32,
    max_wait_s: float = 0.0,
    on_results: Callable[[], None] = lambda: None,
) -> ModelQueue:
    limits = ModelLimits(batch, max_wait_s)
    return ModelQueue(model, limits, status=RuntimeStatus(), clock=clock, on_results=on_results)


async def groups(results: Results) -> list[str]:
    return [result.group for result in await results]


async def test_what_arrives_while_the_model_works_is_one_call(model: SlowAssembler) -> None:
    waiting = queue(model)
    results = [waiting.add([part(name)]) for name in "abc"]
    model.release.release(2)
    assert [await groups(result) for result in results] == [["a"], ["b"], ["c"]]
    assert model.calls == [["a"], ["b", "c"]]
    await waiting.close()


async def test_windows_wait_until_there_are_enough_or_they_have_waited_long_enough(model: SlowAssembler) -> None:
    now = [0.0]
    waiting = queue(model, clock=lambda: now[0], batch=3, max_wait_s=1.0)
    model.release.release(2)
    first = waiting.add([part("a")])
    assert (waiting.due, waiting.due_in_s) == (False, 1.0)
    second = waiting.add([part("b", windows=2)])
    assert [await groups(first), await groups(second)] == [["a"], ["b"]]
    third = waiting.add([part("c")])
    now[0] = 1.0
    assert waiting.due
    waiting.flush()
    assert await groups(third) == ["c"]
    assert model.calls == [["a", "b"], ["c"]]
    await waiting.close()


async def test_states_are_restored_and_forgotten_after_the_windows_that_wait(model: SlowAssembler) -> None:
    waiting, states = queue(model), {"pumps": {"p1": AssetState(4, "high", 2, ())}}
    results = [waiting.add([part(name)]) for name in "ab"]
    waiting.forget(HERE)
    waiting.restore(HERE, states)
    states["pumps"].clear()  # the caller goes on with its own copy
    results.append(waiting.add([part("c")]))
    model.release.release(3)
    await asyncio.gather(*results)
    restored = {"pumps": {"p1": AssetState(4, "high", 2, ())}}
    assert model.calls == [["a"], ["b"], ("forget", HERE), ("restore", HERE, restored), ["c"]]
    await waiting.close()


async def test_a_batch_that_affects_no_event_needs_no_model(model: SlowAssembler) -> None:
    waiting = queue(model)
    assert await waiting.add([part("a", windows=0)]) == []
    assert waiting.due_in_s is None
    await waiting.close()


async def test_the_end_of_a_call_is_reported(model: SlowAssembler) -> None:
    reported: list[bool] = []
    waiting = queue(model, on_results=lambda: reported.append(True))
    model.release.release()
    await waiting.add([part("a")])
    await asyncio.sleep(0)
    assert reported == [True]
    await waiting.close()


async def test_an_error_of_the_model_reaches_every_batch_of_the_call() -> None:
    class Broken(SlowAssembler):
        def classify(self, batches: Sequence[Ingested], progressed: Callable[[], None]) -> ScoredBatches:
            raise ValueError("the model is broken")

    await _assert_broken(queue(Broken(), batch=2, max_wait_s=1.0))


async def test_an_error_of_the_events_reaches_every_batch_of_the_call() -> None:
    class Broken(SlowAssembler):
        def assemble(
            self, batches: Sequence[Ingested], scored: ScoredBatches, progressed: Callable[[], None]
        ) -> list[BatchResult]:
            raise ValueError("the events are broken")

    broken = Broken()
    broken.release.release()
    await _assert_broken(queue(broken, batch=2, max_wait_s=1.0))


async def test_the_model_goes_on_while_events_are_built() -> None:
    class SlowEvents(SlowAssembler):
        """Its first events wait for the second call of the model."""

        second = threading.Event()

        def classify(self, batches: Sequence[Ingested], progressed: Callable[[], None]) -> ScoredBatches:
            if batches[0].group == "b":
                self.second.set()
            return [[] for _ in batches]

        def assemble(
            self, batches: Sequence[Ingested], scored: ScoredBatches, progressed: Callable[[], None]
        ) -> list[BatchResult]:
            assert self.second.wait(60)
            return super().assemble(batches, scored, progressed)

    model = SlowEvents()
    waiting = queue(model)
    results = [waiting.add([part(name)]) for name in "ab"]
    assert [await groups(result) for result in results] == [["a"], ["b"]]
    assert model.calls == [["a"], ["b"]]
    await waiting.close()


async def _assert_broken(waiting: ModelQueue) -> None:
    results = [waiting.add([part(name)]) for name in "ab"]
    for result in results:
        with pytest.raises(ValueError, match="broken"):
            await result
    await waiting.close()
