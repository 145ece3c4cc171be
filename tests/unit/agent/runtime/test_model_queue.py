"""Windows wait for the model: for company while it is free, for the end of its call while it works."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from agent.health.status import RuntimeStatus
from agent.runtime import model_queue
from agent.runtime.model_queue import ModelQueue
from connectors.records import Partition

HERE = Partition("readings", 0)


class SlowModel:
    """Says back what it is given; each call waits until it is let go."""

    def __init__(self):
        self.calls, self.go = [], threading.Semaphore(0)

    def __call__(self, intakes, progressed):
        assert self.go.acquire(timeout=5)
        progressed()
        self.calls.append([intake.name for intake, _ in intakes])
        return [intake.name for intake, _ in intakes]


@pytest.fixture
def model(monkeypatch):
    model = SlowModel()
    monkeypatch.setattr(model_queue, "assemble_batches", model)
    return model


def intake(name, windows=1):
    due = SimpleNamespace(row=[0] * windows)
    return SimpleNamespace(name=name, says_something=windows > 0, applied=SimpleNamespace(due=due))


def queue(clock=lambda: 0.0, **options):
    return ModelQueue(RuntimeStatus(), clock, **{"batch": 32, "max_wait_s": 0.0, **options})


async def test_what_comes_while_the_model_works_is_one_call(model):
    waiting = queue()
    answers = [waiting.add([intake(name)], HERE) for name in "abc"]
    model.go.release(2)
    assert [await answer for answer in answers] == [["a"], ["b"], ["c"]]
    assert model.calls == [["a"], ["b", "c"]]
    await waiting.close()


async def test_windows_wait_for_company_until_there_are_enough_or_their_time_is_up(model):
    now = [0.0]
    waiting = queue(clock=lambda: now[0], batch=3, max_wait_s=1.0)
    model.go.release(2)
    first = waiting.add([intake("a")], HERE)
    assert (waiting.due, waiting.due_in_s) == (False, 1.0)
    second = waiting.add([intake("b", windows=2)], HERE)
    assert await asyncio.gather(first, second) == [["a"], ["b"]]
    third = waiting.add([intake("c")], HERE)
    now[0] = 1.0
    assert waiting.due
    waiting.flush()
    assert await third == ["c"]
    assert model.calls == [["a", "b"], ["c"]]
    await waiting.close()


async def test_what_is_to_follow_all_windows_follows_those_that_still_gather(model):
    waiting, order = queue(), model.calls
    answers = [waiting.add([intake(name)], HERE) for name in "ab"]
    waiting.after_all(lambda: order.append("after"))
    answers.append(waiting.add([intake("c")], HERE))
    model.go.release(3)
    await asyncio.gather(*answers)
    assert order == [["a"], ["b"], "after", ["c"]]
    await waiting.close()


async def test_a_batch_that_says_nothing_needs_no_model(model):
    waiting = queue()
    assert await waiting.add([intake("a", windows=0)], HERE) == []
    assert waiting.due_in_s is None
    await waiting.close()


async def test_the_end_of_a_call_is_told(model):
    told = []
    waiting = queue(on_judged=lambda: told.append(True))
    model.go.release()
    await waiting.add([intake("a")], HERE)
    await asyncio.sleep(0)
    assert told == [True]
    await waiting.close()
