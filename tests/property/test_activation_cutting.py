"""However the log is cut into batches, every window is classified by the model that is active at its end."""

import asyncio

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.activations import Activation, timeline
from agent.runtime.pipeline import PipelineLimits
from connectors.memory import MemoryLog, MemorySink, MemoryWindowStore
from tests.support.plant import A, events_of, put
from tests.support.reload_plant import CONFIGURED, activation, pipeline_with, shelf

FLOWS = st.lists(st.sampled_from([1.0, -1.0, None]), min_size=12, max_size=40)
ACTIVATIONS = st.lists(st.builds(activation, st.integers(98, 142), st.sampled_from(["x", "y", "damaged"])), max_size=4)


def published(
    flows: list[float | None], line: list[Activation], cuts: list[int], *, loses: bool = False
) -> dict[str, bytes]:
    """One run per cut over the same log, the windows handed on or lost between them, and one to the end."""
    log, sink, store = MemoryLog([A]), MemorySink(), MemoryWindowStore()
    written = 0
    for cut in [*cuts, len(flows)]:
        for second in range(written, max(cut, written)):
            put(log, "p1", 100 + second, flows[second])
        written = max(cut, written)
        limits = PipelineLimits(max_records=1 + cut % 7, checkpoint_records=5, poll_timeout_s=0.01)
        asyncio.run(pipeline_with(log, sink, store, line, shelf("x", "y"), limits=limits).run(asyncio.Event()))
        if loses:
            store.flush()
    return events_of(sink)


@settings(max_examples=40, deadline=None)
@given(FLOWS, ACTIVATIONS, st.lists(st.integers(0, 12), max_size=4).map(sorted), st.booleans())
def test_any_cutting_across_an_activation_gives_the_same_events(
    flows: list[float | None], line: list[Activation], cuts: list[int], loses: bool
) -> None:
    assert published(flows, line, cuts, loses=loses) == published(flows, line, [])


@settings(max_examples=40, deadline=None)
@given(FLOWS, ACTIVATIONS)
def test_every_event_names_the_model_in_force_at_its_end(flows: list[float | None], line: list[Activation]) -> None:
    accepted = [each for each in timeline(line, "pumps") if each.bundle != "damaged"]
    for value in published(flows, line, []).values():
        event = orjson.loads(value)
        if event["type"] != "state":
            continue
        minute, second = event["window"]["end"][-6:-1].split(":")
        end_ns = (int(minute) * 60 + int(second)) * 10**9
        active = [each.digest for each in accepted if each.effective_ns <= end_ns]
        assert event["model"]["digest"] == (active[-1] if active else CONFIGURED)
