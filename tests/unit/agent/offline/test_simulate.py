"""Simulated plants that fit a configuration."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent.cli.main import main
from agent.errors import SettingsError
from agent.offline.simulate import RecordConverter, simulated_assets, true_states
from agent.settings import Plant, load_settings
from connectors.records import Record
from connectors.simulator import SimulatorSource
from connectors.simulator.labels import labelled_intervals
from connectors.simulator.plants import KINDS, SimulatedAsset
from tests.support.offline_plant import write_plant

Command = Callable[..., tuple[int, str]]
PUMP = SimulatedAsset("pump-1", KINDS["pump"], 5)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", "simulate", "stream", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        return code, capsys.readouterr().err

    return call


def plant(directory: Path, **sections: object) -> Plant:
    return load_settings(write_plant(directory, **sections), {})


def test_labelled_intervals_agree_with_the_state_of_every_sample() -> None:
    samples = 2500
    found = list(labelled_intervals(PUMP, samples))
    assert (found[0].first, found[-1].stop) == (0, samples)
    assert all(one.stop == other.first and one.state != other.state for one, other in pairwise(found))
    told = [PUMP.kind.states[each.state] for each in found for _ in range(each.first, each.stop)]
    assert [told[at] for at in range(0, samples, 50)] == [PUMP.state_at(at) for at in range(0, samples, 50)]


def test_truth_has_times_and_ends_with_the_stream() -> None:
    truth = true_states([PUMP], start_ns=1_000, length_ns=100_000_000_000, samples=300)
    assert (truth[0].start_ns, truth[-1].end_ns) == (1_000, 1_000 + 300 * PUMP.kind.period_ns)
    assert {each.fault for each in truth if each.state == "normal"} == {False}


def test_assets_are_named_or_made_from_patterns_of_groups_that_fit(tmp_path: Path) -> None:
    settings = plant(tmp_path)
    channels = {"pumps": KINDS["gearbox"].channels}
    made = simulated_assets(settings, named={}, per_group=3, seed=0, channels=channels)
    assert [(asset.name, asset.kind.name) for asset in made] == [(f"pump-{n}", "gearbox") for n in (1, 2, 3)]
    named = simulated_assets(settings, named={"x": "patient"}, per_group=3, seed=0, channels={})
    assert [(asset.name, asset.kind.name) for asset in named] == [("x", "patient")]
    with pytest.raises(SettingsError, match="group pumps has the channels flow, which fit no simulated kind"):
        simulated_assets(settings, named={}, per_group=1, seed=0, channels={"pumps": ("flow",)})
    with pytest.raises(SettingsError, match="'wheel' is not one of"):
        simulated_assets(settings, named={"x": "wheel"}, per_group=1, seed=0, channels={})


def test_records_are_written_as_the_plant_reads_them(tmp_path: Path) -> None:
    channels = [{"name": "flow", "field": "f1", "scale": 2.0, "offset": 1.0}, {"name": "pressure"}]
    group = {"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "bundle"}, "channels": channels}
    records = {"asset_field": "id", "values_field": "v", "time": {"field": "at", "unit": "iso"}}
    converter = RecordConverter.of(plant(tmp_path, groups=[group], records=records))
    value = orjson.dumps({"ts": 1500, "asset": "pump-1", "flow": 5.0, "pressure": None})
    written = converter.convert(Record(1, 2, b"pump-1", value))
    assert json.loads(written.value or b"") == {
        "at": "1970-01-01T00:00:01.5Z",
        "id": "pump-1",
        "v": {"f1": 2.0, "pressure": None},
    }
    cut_off = Record(1, 2, b"pump-1", b'{"ts":15')
    assert converter.convert(cut_off) is cut_off


def test_a_plain_plant_gets_the_simulators_own_bytes(tmp_path: Path) -> None:
    record = Record(1, 2, b"pump-1", b'{"ts":1500,"asset":"pump-1","flow":5.0}')
    assert RecordConverter.of(plant(tmp_path)).convert(record) is record


def test_only_wide_records_are_simulated(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"records\.format: narrow"):
        RecordConverter.of(plant(tmp_path, records={"format": "narrow"}))


def test_the_same_seed_gives_the_same_file_and_dirt_can_be_left_out(tmp_path: Path, command: Command) -> None:
    path = write_plant(tmp_path)
    given = ("-c", path, "--asset", "pump-1=pump", "--for", "60s")
    for name, options in {"a": (), "b": (), "c": ("--clean",), "d": ("--seed", "1")}.items():
        assert command(*given, "--to", tmp_path / f"{name}.jsonl", *options)[0] == 0
    a, b, clean, other = ((tmp_path / f"{name}.jsonl").read_bytes() for name in "abcd")
    assert a == b
    assert a not in (clean, other)
    assert clean.count(b"\n") == 600


def test_without_an_end_the_stream_runs_in_real_time_and_says_so(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds: list[float | None] = []

    class Recorded(SimulatorSource):
        def __init__(self, *positional: Any, **options: Any) -> None:
            speeds.append(options["speed"])
            super().__init__(*positional, **options)

    async def write_stream(*_: object, **__: object) -> tuple[int, int]:
        return 7, 0

    monkeypatch.setattr("connectors.simulator.SimulatorSource", Recorded)
    monkeypatch.setattr("agent.offline.simulate_outputs.write_stream", write_stream)
    given = ("-c", write_plant(tmp_path), "--to", "out.jsonl", "--asset", "pump-1=pump")
    code, said = command(*given)
    assert (code, speeds) == (0, [1.0])
    assert said.startswith("writing to out.jsonl at 1 × real time; Ctrl-C stops\n")
    assert command(*given, "--samples", 9)[0] == 0
    assert speeds[1:] == [None]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--for", "soon"), "--for: 'soon' is not a number with a unit"),
        (("--for", "1s", "--samples", "3"), "--samples: give either"),
        (("--for", "1s", "--start", "now"), "--start: 'now' is not an ISO 8601 time"),
        (("--for", "1s", "--asset", "pump-1"), "--asset: write ID=KIND, like pump-7=pump"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, command: Command, arguments: tuple[str, ...], words: str
) -> None:
    named = () if "--asset" in arguments else ("--asset", "pump-1=pump")
    code, said = command("-c", write_plant(tmp_path), "--to", tmp_path / "x.jsonl", *named, *arguments)
    assert code == 2
    assert said.startswith(f"error: {words}")
    assert not (tmp_path / "x.jsonl").exists()


def test_kafka_is_refused_where_the_plant_has_none(tmp_path: Path, command: Command) -> None:
    code, said = command("-c", write_plant(tmp_path), "--to", "kafka", "--for", "1s", "--asset", "pump-1=pump")
    assert (code, said) == (
        2,
        "error: --to kafka: the plant's source is file, not kafka; write kafka:TOPIC or a path\n",
    )
