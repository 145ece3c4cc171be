"""Models that take over: loaded beside the old one, refused when they do not fit, put away when nobody asks."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from agent.health.status import RuntimeStatus
from agent.models.activations import encode_activation
from agent.models.compatibility import CompatibleBundles
from agent.runtime.model_reload import GIVE_UP_AFTER_S, PUT_AWAY_EVERY_S
from agent.runtime.pipeline import PipelineLimits
from anchormoe.windows import FillRule
from connectors.errors import ConnectorError
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from connectors.records import EVENTS
from tests.support.offline_plant import FACTS
from tests.support.plant import A, put, watched
from tests.support.reload_plant import (
    CONFIGURED,
    STATED,
    NamedRule,
    activation,
    digest,
    pipeline_with,
    reloading,
    running,
    shelf,
)

PACE = PipelineLimits(max_records=3, checkpoint_records=7, poll_timeout_s=0.01)


def states(sink):
    found = [orjson.loads(message.value) for message in sink.of(EVENTS)]
    return [event for event in found if event["type"] == "state"]


async def run(activations, bundles, *, seconds=30):
    log, sink = MemoryLog([A]), MemorySink()
    for second in range(100, 100 + seconds):
        put(log, "p1", second, 1.0)
    pipeline = pipeline_with(log, sink, MemoryWindowStore(), activations, bundles, pace=PACE)
    await pipeline.run(asyncio.Event())
    return pipeline, states(sink)


def speakers(found):
    """(second of the window's end, first letter of the digest)."""
    return [(event["window"]["end"][-6:-1], event["model"]["digest"][0]) for event in found]


async def test_the_digest_changes_exactly_at_the_effective_end():
    _, found = await run([activation(114, "x")], shelf("x"))
    letters = dict(speakers(found))
    assert {end: letter for end, letter in letters.items() if end < "01:54"} == dict.fromkeys(
        [end for end in letters if end < "01:54"], "d"
    )
    assert letters["01:52"] == "d"
    assert letters["01:54"] == "x"
    assert set(letters.values()) == {"d", "x"}


async def test_the_previous_state_across_a_change_is_what_the_old_model_said():
    _, found = await run([activation(114, "x")], shelf("x"))
    change = next(event for event in found if event["model"]["digest"] == digest("x"))
    assert (change["previous_state"], change["state"]) == ("high", "low")


async def test_the_configured_model_can_be_activated_again():
    _, found = await run([activation(108, "x"), activation(116, None)], shelf("x", configured=_configured()))
    letters = [letter for _, letter in speakers(found)]
    assert "".join(dict.fromkeys(letters)) == "dx"
    assert letters[-1] == "d"


def _configured():
    return NamedRule(replace(FACTS, digest=CONFIGURED))


async def test_a_damaged_bundle_is_refused_and_the_one_before_it_goes_on():
    pipeline, found = await run([activation(108, "x"), activation(116, "y")], shelf("x"))
    assert {letter for end, letter in speakers(found) if end >= "01:48"} == {"x"}
    assert dict(pipeline.vitals.reloads) == {"loaded": 1, "refused": 1}
    assert pipeline.tally.events["model_refused"] == 1


def test_a_bundle_fills_holes_as_in_its_own_training_data():
    other = NamedRule(replace(FACTS, digest=digest("y"), fill=(FillRule("hold", 2), FillRule())))
    speaker = CompatibleBundles(Path("bundles"), STATED, running(), shelf(y=other).load).speaker(activation(108, "y"))
    assert speaker.judge.fill_rules == (FillRule("hold", 2), FillRule())


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"digest": digest("z")}, "its digest is zzzz"),
        ({"channels": ("pressure", "flow")}, "other channels"),
        ({"channels": ("flow", "heat")}, "other channels"),
        ({"units": ("bar", "")}, "other channels"),
        ({"length": 8}, "other shape"),
        ({"period_ns": 5}, "other grid"),
    ],
)
async def test_a_bundle_that_does_not_fit_the_windows_is_refused_with_the_reason(facts, reason):
    other = NamedRule(replace(FACTS, **({"digest": digest("y")} | facts)))
    told, group = [], watched()
    models = reloading(group, [encode_activation(activation(108, "y"))], shelf(y=other))
    await models.begin()
    await models.look(told_to(told))
    await models.close()
    (event,) = told
    assert reason in event.data["reason"]
    assert event.data["refused"] == {"bundle": "y", "digest": digest("y")}
    assert (event.data["asset"], event.data["input"]["topic"], event.time_ns) == ("pumps", "memory", 108 * 10**9)
    assert group.speakers(np.array([200]))[0].model.digest == CONFIGURED


def told_to(told):
    async def announce(sightings):
        told.extend(sighting.event for sighting in sightings)

    return announce


async def test_a_refusal_is_told_once():
    told = []
    models = reloading(watched(), [encode_activation(activation(108, "y"))], shelf())
    await models.begin()
    for _ in range(3):
        await models.look(told_to(told))
    await models.close()
    assert len(told) == 1


async def test_a_refusal_is_told_at_the_end_of_the_work_too_and_again_when_telling_was_cut_off():
    told, models = [], reloading(watched(), [encode_activation(activation(108, "y"))], shelf())
    await models.begin()

    async def cut_off(sightings):
        raise ConnectorError("gone")

    with pytest.raises(ConnectorError):
        await models.tell_refusals(cut_off)
    await models.tell_refusals(told_to(told))
    await models.tell_refusals(told_to(told))
    await models.close()
    assert len(told) == 1


async def test_a_place_outside_the_directory_is_refused():
    told, bundles = [], shelf("x")
    models = reloading(watched(), [encode_activation(activation(108, "../x", of=digest("x")))], bundles)
    await models.begin()
    await models.look(told_to(told))
    await models.close()
    assert "not inside" in told[0].data["reason"]
    assert bundles.loads == []


async def test_an_activation_that_comes_while_running_is_used_from_its_end_on():
    values, group = [], watched()
    models = reloading(group, values, shelf("x"))
    await models.begin()
    assert group.speakers(np.array([200]))[0].model.digest == CONFIGURED
    values.append(encode_activation(activation(300, "x")))
    await models.look(told_to([]))
    ends = np.array([299, 300, 301])
    assert [each.model.digest[0] for each in group.speakers(ends)] == ["d", "x", "x"]
    await models.close()


async def test_what_is_no_activation_or_of_an_unknown_group_is_passed_over():
    vitals, group = RuntimeStatus(), watched()
    values = [b"{", encode_activation(activation(100, "x", group="fans")), encode_activation(activation(100, "x"))]
    models = reloading(group, values, shelf("x"), vitals=vitals)
    await models.begin()
    await models.close()
    assert dict(vitals.reloads) == {"malformed": 1, "loaded": 1}
    assert len(group.succession) == 1


async def test_models_of_the_past_are_loaded_when_asked_for_and_put_away_when_nobody_asks():
    now = 0.0
    bundles, group, vitals = shelf("x", "y"), watched(), RuntimeStatus(lambda: now)
    line = [encode_activation(activation(100, "x")), encode_activation(activation(200, "y"))]
    models = reloading(group, line, bundles, now_s=500, vitals=vitals)
    await models.begin()
    assert bundles.loads == ["y"]
    assert group.speakers(np.array([150]))[0].model.digest == digest("x")
    for _ in range(3):
        now += PUT_AWAY_EVERY_S
        await models.look(told_to([]))
    assert bundles.loads == ["y", "x"]
    assert group.speakers(np.array([150, 250]))[0].model.digest == digest("x")
    assert bundles.loads == ["y", "x", "x"]
    await models.close()


async def test_a_journal_that_stays_silent_too_long_stops_the_agent():
    now = 0.0
    models = reloading(watched(), [], shelf(), vitals=RuntimeStatus(lambda: now))
    await models.begin()

    async def gone():
        raise ConnectorError("no answer")

    models._journal.read = gone
    await models.look(told_to([]))
    now = GIVE_UP_AFTER_S + 1
    with pytest.raises(ConnectorError, match="no answer"):
        await models.look(told_to([]))
    await models.close()
