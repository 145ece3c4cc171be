"""Activated models: loaded beside the old one, refused when they do not fit, unloaded when they are not used."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from agent.events.outgoing import OutgoingEvent
from agent.events.payloads import Event
from agent.health.status import RuntimeStatus
from agent.models.activations import Activation, encode_activation
from agent.models.compatibility import CompatibleBundles
from agent.runtime.model_reload import GIVE_UP_AFTER_S, RETRY_EVERY_S, UNLOAD_EVERY_S, Announce
from agent.runtime.pipeline import Pipeline, PipelineLimits
from anchormoe.windows import FillRule
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import EVENTS
from tests.support.offline_plant import FACTS
from tests.support.plant import A, pumps, put
from tests.support.reload_plant import (
    CONFIGURED,
    STATED,
    NamedRule,
    Shelf,
    activation,
    digest,
    pipeline_with,
    reloader,
    running,
    shelf,
)

LIMITS = PipelineLimits(max_records=3, checkpoint_records=7, poll_timeout_s=0.01)


def states(sink: MemorySink) -> list[dict[str, Any]]:
    found = [orjson.loads(message.value or b"") for message in sink.of(EVENTS)]
    return [event for event in found if event["type"] == "state"]


async def run(activations: list[Activation], bundles: Shelf) -> tuple[Pipeline, list[dict[str, Any]]]:
    log, sink = MemoryLog([A]), MemorySink()
    for second in range(100, 130):
        put(log, "p1", second, 1.0)
    pipeline = pipeline_with(log, sink, MemoryWindowStore(), activations, bundles, limits=LIMITS)
    await pipeline.run(asyncio.Event())
    return pipeline, states(sink)


def digests(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(second of the window's end, first letter of the digest)."""
    return [(event["window"]["end"][-6:-1], event["model"]["digest"][0]) for event in found]


async def test_the_digest_changes_exactly_at_the_effective_end() -> None:
    _, found = await run([activation(114, "x")], shelf("x"))
    letters = dict(digests(found))
    assert {end: letter for end, letter in letters.items() if end < "01:54"} == dict.fromkeys(
        [end for end in letters if end < "01:54"], "d"
    )
    assert letters["01:52"] == "d"
    assert letters["01:54"] == "x"
    assert set(letters.values()) == {"d", "x"}


async def test_the_previous_state_across_a_change_is_that_of_the_old_model() -> None:
    _, found = await run([activation(114, "x")], shelf("x"))
    change = next(event for event in found if event["model"]["digest"] == digest("x"))
    assert (change["previous_state"], change["state"]) == ("high", "low")


async def test_the_configured_model_can_be_activated_again() -> None:
    _, found = await run([activation(108, "x"), activation(116, None)], shelf("x", configured=_configured()))
    letters = [letter for _, letter in digests(found)]
    assert "".join(dict.fromkeys(letters)) == "dx"
    assert letters[-1] == "d"


def _configured() -> NamedRule:
    return NamedRule(replace(FACTS, digest=CONFIGURED))


async def test_a_damaged_bundle_is_refused_and_the_previous_one_stays_active() -> None:
    pipeline, found = await run([activation(108, "x"), activation(116, "y")], shelf("x"))
    assert {letter for end, letter in digests(found) if end >= "01:48"} == {"x"}
    assert dict(pipeline.status.model_reloads) == {"loaded": 1, "refused": 1}
    assert pipeline.counters.events["model_refused"] == 1


def test_a_bundle_fills_holes_as_in_its_own_training_data() -> None:
    other = NamedRule(replace(FACTS, digest=digest("y"), fill=(FillRule("hold", 2), FillRule())))
    bundles = CompatibleBundles(Path("bundles"), STATED, running(), shelf(y=other).load)
    model = bundles.load_activated(activation(108, "y"))
    assert model.classifier.fill_rules == (FillRule("hold", 2), FillRule())


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"digest": digest("z")}, "its digest is zzzz"),
        ({"channels": ("pressure", "flow")}, "differs from the running group pumps in channels"),
        ({"channels": ("flow", "heat")}, "differs from the running group pumps in channels"),
        ({"units": ("bar", "")}, "differs from the running group pumps in channels"),
        ({"length": 8}, "in shape"),
        ({"period_ns": 5}, "in grid, "),
    ],
)
async def test_a_bundle_that_does_not_fit_the_windows_is_refused_with_the_reason(
    facts: dict[str, Any], reason: str
) -> None:
    other = NamedRule(replace(FACTS, **({"digest": digest("y")} | facts)))
    group = pumps()
    events: list[Event] = []
    models = reloader(group, [encode_activation(activation(108, "y"))], shelf(y=other))
    await models.start()
    await models.check(collect(events))
    await models.close()
    (event,) = events
    assert reason in event.data["reason"]
    assert event.data["refused"] == {"bundle": "y", "digest": digest("y")}
    assert (event.data["asset"], event.data["input"]["topic"], event.time_ns) == ("pumps", "memory", 108 * 10**9)
    assert group.active_models(np.array([200]))[0].name.digest == CONFIGURED


def collect(events: list[Event]) -> Announce:
    async def announce(outgoing: Sequence[OutgoingEvent]) -> None:
        events.extend(one.event for one in outgoing)

    return announce


async def test_a_refusal_is_published_once() -> None:
    events: list[Event] = []
    models = reloader(pumps(), [encode_activation(activation(108, "y"))], shelf())
    await models.start()
    for _ in range(3):
        await models.check(collect(events))
    await models.close()
    assert len(events) == 1


async def test_a_refusal_is_published_at_the_end_of_a_run_too_and_again_after_a_failed_attempt() -> None:
    events: list[Event] = []
    models = reloader(pumps(), [encode_activation(activation(108, "y"))], shelf())
    await models.start()

    async def cut_off(outgoing: Sequence[OutgoingEvent]) -> None:
        raise ConnectorError("gone")

    with pytest.raises(ConnectorError):
        await models.publish_refusals(cut_off)
    await models.publish_refusals(collect(events))
    await models.publish_refusals(collect(events))
    await models.close()
    assert len(events) == 1


async def test_a_refusal_is_published_once_although_the_end_of_a_run_and_the_follower_do_it_together() -> None:
    events: list[Event] = []
    released = asyncio.Event()
    models = reloader(pumps(), [encode_activation(activation(108, "y"))], shelf())
    await models.start()

    async def slow(outgoing: Sequence[OutgoingEvent]) -> None:
        await released.wait()
        await collect(events)(outgoing)

    async with asyncio.TaskGroup() as group:
        group.create_task(models.publish_refusals(slow))
        group.create_task(models.publish_refusals(slow))
        await asyncio.sleep(0)
        released.set()
    await models.close()
    assert len(events) == 1


async def test_a_bundle_that_arrives_before_its_first_window_is_due_is_used_and_refused_once() -> None:
    now, announced = [0.0], list[Event]()
    group, bundles = pumps(), shelf("x")
    late = Shelf({}, bundles.loads)
    values = [encode_activation(activation(114, "x"))]
    models = reloader(group, values, late, clock=lambda: now[0])

    async def announce(events: Sequence[OutgoingEvent]) -> None:
        announced.extend(each.event for each in events)

    await models.start()
    for now[0] in (RETRY_EVERY_S, RETRY_EVERY_S + 1):
        await models.check(announce)
    assert len(bundles.loads) == 2
    late.models = bundles.models
    now[0] = 2 * RETRY_EVERY_S + 1
    await models.check(announce)
    [model] = group.schedule.active_models(np.array([114 * 10**9]))
    assert model is not None
    assert model.name.digest == digest("x")
    assert len(announced) == 1


async def test_a_refused_bundle_is_not_tried_again_once_a_window_has_done_without_it() -> None:
    now, bundles = [0.0], Shelf({}, [])
    group = pumps()
    models = reloader(group, [encode_activation(activation(114, "x"))], bundles, clock=lambda: now[0])
    await models.start()
    assert group.schedule.active_models(np.array([114 * 10**9])) == [None]
    now[0] = 2 * RETRY_EVERY_S
    await models.check(_ignore)
    assert bundles.loads == ["x"]


async def _ignore(events: Sequence[OutgoingEvent]) -> None:
    """Nobody listens."""


async def test_a_bundle_outside_the_directory_is_refused() -> None:
    events: list[Event] = []
    bundles = shelf("x")
    models = reloader(pumps(), [encode_activation(activation(108, "../x", of=digest("x")))], bundles)
    await models.start()
    await models.check(collect(events))
    await models.close()
    assert "not inside" in events[0].data["reason"]
    assert bundles.loads == []


async def test_an_activation_while_running_is_used_from_its_effective_end_on() -> None:
    values: list[bytes] = []
    group = pumps()
    models = reloader(group, values, shelf("x"))
    await models.start()
    assert group.active_models(np.array([200]))[0].name.digest == CONFIGURED
    values.append(encode_activation(activation(300, "x")))
    await models.check(collect([]))
    ends = np.array([299, 300, 301])
    assert [each.name.digest[0] for each in group.active_models(ends)] == ["d", "x", "x"]
    await models.close()


async def test_what_is_not_an_activation_or_of_an_unknown_group_is_skipped() -> None:
    status, group = RuntimeStatus(), pumps()
    values = [b"{", encode_activation(activation(100, "x", group="fans")), encode_activation(activation(100, "x"))]
    models = reloader(group, values, shelf("x"), status=status)
    await models.start()
    await models.close()
    assert dict(status.model_reloads) == {"malformed": 1, "loaded": 1}
    assert len(group.schedule) == 1


async def test_earlier_models_are_loaded_on_request_and_unloaded_when_unused() -> None:
    now = 0.0
    bundles, group = shelf("x", "y"), pumps()
    line = [encode_activation(activation(100, "x")), encode_activation(activation(200, "y"))]
    models = reloader(group, line, bundles, now_s=500, clock=lambda: now)
    await models.start()
    assert bundles.loads == ["y"]
    assert group.active_models(np.array([150]))[0].name.digest == digest("x")
    for _ in range(3):
        now += UNLOAD_EVERY_S
        await models.check(collect([]))
    assert bundles.loads == ["y", "x"]
    assert group.active_models(np.array([150, 250]))[0].name.digest == digest("x")
    assert bundles.loads == ["y", "x", "x"]
    await models.close()


async def test_activations_that_cannot_be_read_for_too_long_stop_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    models = reloader(pumps(), [], shelf(), clock=lambda: now)
    await models.start()

    async def gone() -> None:
        raise ConnectorError("no answer")

    monkeypatch.setattr(models._activations, "read", gone)
    await models.check(collect([]))
    now = GIVE_UP_AFTER_S + 1
    with pytest.raises(ConnectorError, match="no answer"):
        await models.check(collect([]))
    await models.close()


class Broken(Shelf):
    """Bundles whose loading fails as torch and numpy do it: with anything."""

    def load(self, directory: Path) -> Any:
        if directory.name == "y":
            raise RuntimeError("Storage size calculation overflowed \ud800" + "x" * 10_000)
        if directory.name == "z":
            raise MemoryError
        return super().load(directory)


async def test_whatever_loading_raises_is_a_refusal_and_not_the_end_of_the_agent() -> None:
    bundles = Broken(shelf("x").models, [])
    activations = [activation(108, "x"), activation(112, "y"), activation(116, "z"), activation(120, "nul\x00")]
    pipeline, found = await run(activations, bundles)
    assert {letter for end, letter in digests(found) if end >= "01:48"} == {"x"}
    assert dict(pipeline.status.model_reloads) == {"loaded": 1, "refused": 3}
    assert pipeline.counters.events["model_refused"] == 3


async def test_the_reason_of_a_refusal_can_be_published() -> None:
    events: list[Event] = []
    models = reloader(pumps(), [encode_activation(activation(108, "y"))], Broken({}, []))
    await models.start()
    await models.check(collect(events))
    await models.close()
    [event] = events
    assert event.data["reason"].startswith("RuntimeError: Storage size calculation overflowed ?x")
    assert len(orjson.dumps(event.data)) < 4_000


async def test_a_stop_does_not_wait_for_a_bundle_that_is_being_loaded() -> None:
    """Neither the event loop nor the process: the thread is a daemon."""
    loading, release = threading.Event(), threading.Event()

    class Slow(Shelf):
        def load(self, directory: Path) -> Any:
            loading.set()
            release.wait(60)
            return super().load(directory)

    models = reloader(pumps(), [encode_activation(activation(108, "x"))], Slow(shelf("x").models, []))
    starting = asyncio.create_task(models.start())
    while not loading.is_set():  # noqa: ASYNC110  # a thread cannot await
        await asyncio.sleep(0.001)
    async with asyncio.timeout(30):
        await models.close()
    waiting = [thread for thread in threading.enumerate() if "_load_in_turn" in thread.name]
    assert [thread.daemon for thread in waiting] == [True]
    starting.cancel()
    release.set()
