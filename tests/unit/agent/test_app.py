"""The wiring: which tasks run beside the pipeline, and in which order things are opened."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.app import Application, build, build_pipeline, load_groups
from agent.errors import SettingsError
from agent.events.outgoing import OutgoingEvent, WindowResult
from agent.runtime.instruments import Instruments
from anchormoe.errors import ModelError
from anchormoe.windows import FillRule
from connectors.jsonl import read_messages
from tests.support.offline_plant import FACTS, load_offline_plant, load_rule, records, write_plant
from tests.support.reload_plant import NamedRule


class Listening:
    """An observer that remembers what it was told."""

    def __init__(self) -> None:
        self.calls = list[str]()

    def start(self) -> None:
        self.calls.append("start")

    def classified(self, result: WindowResult) -> None:
        self.calls.append("classified")

    def published(self, outgoing: OutgoingEvent) -> None:
        self.calls.append("published")

    def warned(self, message: str | None) -> None:
        self.calls.append("warned")

    def stop(self) -> None:
        self.calls.append("stop")


def plant(directory: Path, **sections: Any) -> Any:
    lines = [(record.value or b"")[:-1] + b',"asset":"%s"}' % (record.key or b"") for record in records(60)]
    (directory / "data.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    source = {"kind": "file", "paths": [str(directory / "data.jsonl")], "format": "jsonl"}
    return load_offline_plant(write_plant(directory, **({"source": source} | sections)))


def test_helpers_are_built_with_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    with build(plant(tmp_path), load_model=load_rule) as application:
        assert len(application.helpers) == 3  # loop delay, watchdog, input
        assert application.pipeline.status.models_loaded
    with build(plant(tmp_path, http={"port": 0}), load_model=load_rule) as application:
        assert len(application.helpers) == 4  # health pages
    with build(plant(tmp_path, models={"directory": str(tmp_path / "bundles")}), load_model=load_rule) as application:
        assert len(application.helpers) == 4  # activations


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_taken_port_is_reported_before_any_model_is_loaded(tmp_path: Path, taken_port: int) -> None:
    def never(directory: Path) -> Any:
        raise AssertionError("loaded")

    loaded = plant(tmp_path, http={"host": "127.0.0.1", "port": taken_port})
    with pytest.raises(SettingsError, match=r"http\.port") as refusal, build(loaded, load_model=never):
        pass
    assert refusal.value.may_pass


def test_a_bundle_that_was_replaced_since_the_settings_were_read_is_refused(tmp_path: Path) -> None:
    """Its channels in another order would be fed in the old one."""

    def load_other(directory: Path) -> Any:
        return NamedRule(replace(FACTS, channels=FACTS.channels[::-1], units=FACTS.units[::-1], digest="e" * 64))

    with pytest.raises(ModelError, match=r"was replaced while the agent started; start it again: .* channels"):
        build_pipeline(plant(tmp_path), load_model=load_other)


def test_a_bundle_that_was_replaced_by_one_that_fits_is_used_with_its_own_filling(tmp_path: Path) -> None:
    def load_other(directory: Path) -> Any:
        return NamedRule(replace(FACTS, fill=(FillRule("hold", 2), FillRule()), digest="e" * 64))

    [(group, predictor)] = load_groups(plant(tmp_path), load_other)
    assert group.fill_rules == (FillRule("hold", 2), FillRule())
    assert predictor.config.digest == "e" * 64


def test_a_pipeline_alone_opens_no_port(tmp_path: Path, taken_port: int) -> None:
    loaded = plant(tmp_path, http={"host": "127.0.0.1", "port": taken_port})
    assert build_pipeline(loaded, load_model=load_rule).models is None


async def test_an_application_runs_to_the_end_of_its_source(tmp_path: Path) -> None:
    observer = Listening()
    loaded = plant(tmp_path, http={"host": "127.0.0.1", "port": 0})
    with build(loaded, instruments=Instruments(observer=observer), load_model=load_rule) as application:
        async with asyncio.timeout(120):
            await application.run(asyncio.Event())
    assert (observer.calls[0], observer.calls[-1]) == ("start", "stop")
    assert {"classified", "published"} <= set(observer.calls)
    assert list(read_messages(tmp_path / "out" / "events.jsonl"))


async def test_a_helper_that_fails_ends_the_run_and_the_view(tmp_path: Path) -> None:
    async def failing() -> None:
        raise ValueError("on purpose")

    observer = Listening()
    with build(plant(tmp_path), instruments=Instruments(observer=observer), load_model=load_rule) as application:
        broken = Application(application.pipeline, (*application.helpers, failing))
        with pytest.raises(ValueError, match="on purpose"):
            await broken.run(asyncio.Event())
    assert observer.calls[-1] == "stop"
