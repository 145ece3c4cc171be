"""What the live agent said: the right event is found, and its window is read again, sample by sample."""

import asyncio
from pathlib import Path

import numpy as np
import orjson
import pytest
from structlog.testing import capture_logs

from agent.errors import SettingsError
from agent.offline.event_set import write_lines
from agent.offline.replay import replay
from agent.offline.said import SaidEvent, events_place, find_bundle, find_event, largest_difference, read_window
from agent.settings import LoadedPlant
from connectors.files.rows import FileFormat, to_log_line
from connectors.files.source import FileSource
from connectors.timestamps import NS_PER_S
from tests.support.offline_plant import START_MS, load_offline_plant, load_rule, records, write_plant

START_NS = START_MS * 1_000_000


@pytest.fixture
def plant(tmp_path: Path) -> LoadedPlant:
    """Its log is a file, and what its agent published stands in the directory of its sink."""
    good = [record for record in records(60) if (record.value or b"").endswith(b"}")]
    (tmp_path / "log.jsonl").write_bytes(b"".join(map(to_log_line, good)))
    source = {"kind": "file", "paths": [str(tmp_path / "log.jsonl")], "format": "auto", "single_partition": True}
    loaded = load_offline_plant(write_plant(tmp_path, source=source, emission={"policy": "all"}))
    log = FileSource([tmp_path / "log.jsonl"], FileFormat("auto"), single_partition=True)

    async def run() -> None:
        done = await replay(loaded, log, stop=asyncio.Event(), report=lambda *_: None, load_model=load_rule)
        write_lines(tmp_path / "out" / "events.jsonl", done.events.lines())

    with capture_logs():
        asyncio.run(run())
    return loaded


def find(plant: LoadedPlant, asset: str, seconds: float) -> SaidEvent | None:
    place = events_place(plant.settings)
    at_ns = START_NS + int(seconds * NS_PER_S)
    return asyncio.run(find_event(plant.settings, place, asset=asset, at_ns=at_ns))


def test_the_latest_state_up_to_the_time_is_found(plant: LoadedPlant) -> None:
    said = find(plant, "pump-1", 33.5)
    assert said is not None
    assert START_NS + 31 * NS_PER_S < said.time_ns <= START_NS + 33.5 * NS_PER_S
    assert said.data["asset"] == "pump-1"
    assert find(plant, "pump-1", 5000) != said
    assert find(plant, "pump-1", -5000) is None
    assert find(plant, "pump-9", 5000) is None


def test_the_window_behind_an_event_is_read_again(plant: LoadedPlant) -> None:
    said = find(plant, "pump-2", 41.0)
    assert said is not None
    with capture_logs():
        found = asyncio.run(read_window(plant, said, load_rule))
    assert found is not None
    assert found.event.data == said.data
    assert found.window is not None
    seconds = np.arange(4) + (said.time_ns - START_NS) // NS_PER_S - 4
    expected = np.where((seconds + 5) // 10 % 2, 1.0, -1.0)
    known = ~np.isnan(found.window[0])
    assert known.any()
    np.testing.assert_array_equal(found.window[0][known], expected[known])


def test_an_event_that_the_log_does_not_give_any_more_has_no_window(plant: LoadedPlant) -> None:
    said = find(plant, "pump-2", 41.0)
    assert said is not None
    with capture_logs():
        assert asyncio.run(read_window(plant, SaidEvent("another", said.time_ns, said.data), load_rule)) is None


def test_the_bundle_that_spoke_is_known_by_its_digest(plant: LoadedPlant) -> None:
    from anchormoe.bundle.files import sha256

    group = plant.groups[0]
    assert find_bundle(plant, group, "0" * 64) is None
    (group.bundle / "manifest.json").write_bytes(b"{}")
    assert find_bundle(plant, group, sha256(b"{}")) == group.bundle


def test_a_plant_that_publishes_nowhere_readable_is_told_what_to_do(tmp_path: Path) -> None:
    loaded = load_offline_plant(write_plant(tmp_path, sinks=[{"kind": "console"}]))
    with pytest.raises(SettingsError, match="name them with --events"):
        events_place(loaded.settings)


def test_scores_of_both_contracts_are_compared_by_class() -> None:
    one = SaidEvent("a", 0, {"logits": {"x": 1.5, "y": -1.5}, "model": {"digest": "d"}})
    two = SaidEvent("a", 0, {"classes": [{"class": "x", "logit": 1.5}, {"class": "y", "logit": -1.5}]})
    assert one.logits == two.logits == {"x": 1.5, "y": -1.5}
    assert (one.digest, two.digest) == ("d", "")
    assert largest_difference(one.logits, {"x": 1.5, "y": -1.0}) == 0.5
    assert largest_difference(one.logits, {"x": 1.5}) == float("inf")
    assert largest_difference({}, {"x": 1.5}) == float("inf")
    assert SaidEvent("a", 0, orjson.loads('{"logits": null}')).logits == {}
