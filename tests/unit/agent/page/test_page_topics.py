"""What the page reads from the topics: states and events in any order, and how far the agents are."""

from collections.abc import Callable

import orjson
import pytest

from agent.page.agents_progress import AgentsProgress
from agent.page.details import NoWork, health
from agent.page.topic_records import TopicRecords
from connectors.kafka.cluster import Cluster
from connectors.records import Partition, Record
from tests.support.event_samples import samples
from tests.support.page_plant import EVENTS, page_state, record, sample_source


def test_agents_get_on_when_they_commit_and_not_when_more_is_sent() -> None:
    now = [1_000]
    progress = AgentsProgress(Cluster("nowhere:1"), ("sensors",), "group", clock_ms=lambda: now[0])
    told = []
    for at, ends, committed in ((1_000, 10, 4), (2_000, 25, 4), (3_000, 25, 25), (4_000, 25, 25)):
        now[0] = at
        progress.note([({0: ends, 1: 5}, {0: committed}), ({0: 7}, {0: 7})])
        told.append((progress.lag, progress.moved_ms))
    assert told == [(11, 1_000), (26, 1_000), (5, 3_000), (5, 3_000)]
    state = page_state()
    state.lag, state.agents_ms = lambda: progress.lag, lambda: progress.moved_ms
    told_of_health = health(state, NoWork(), clients=0)
    assert (told_of_health.lag, told_of_health.feed.agents_ms) == (5, 3_000)


@pytest.mark.parametrize("first", ["state", "event"])
def test_a_later_state_of_the_topic_still_knows_how_sure_its_event_was(first: str) -> None:
    """The topic of states goes on where only changes are published as events, and may be read before them."""
    state = page_state()
    records = TopicRecords(state, sample_source(), lambda data: "")
    message = next(one for one in samples().events if b'"evidence":{' in (one.value or b""))
    data = orjson.loads(message.value or b"")
    later = {
        "asset": data["asset"], "group": data["group"], "state": data["state"], "since": data["window"]["end"],
        "end": "2024-01-01T00:00:00Z", "abstention": None, "missing_channels": [],
    }  # fmt: skip
    reads: dict[str, Callable[[], None]] = {
        "event": lambda: records.event(EVENTS, record(message)),
        "state": lambda: records.state(Partition("states", 0), Record(0, 0, b"key", orjson.dumps(later))),
    }
    reads.pop(first)()
    for read in reads.values():
        read()
    row = state.fleet.row(data["asset"])
    assert row is not None
    assert row.end_ms == 1_704_067_200_000
    assert row.p == round(100 * data["classes"][0]["probability"])
    assert row.reason


def test_the_probability_of_an_earlier_state_is_not_that_of_the_present_one() -> None:
    state = page_state()
    records = TopicRecords(state, sample_source(), lambda data: "")
    message = next(one for one in samples().events if b'"evidence":{' in (one.value or b""))
    data = orjson.loads(message.value or b"")
    later = {
        "asset": data["asset"], "group": data["group"], "state": "another", "since": "2024-01-01T00:00:00Z",
        "end": "2024-01-01T00:00:00Z", "abstention": None, "missing_channels": [],
    }  # fmt: skip
    records.state(Partition("states", 0), Record(0, 0, b"key", orjson.dumps(later)))
    records.event(EVENTS, record(message))
    row = state.fleet.row(data["asset"])
    assert row is not None
    assert (row.p, state.fleet.state_name(row)) == (-1, "another")
