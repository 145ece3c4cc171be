"""models list, activate and rollback, as a person or a script calls them, with activations in a file."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
import yaml

from agent.cli.main import main
from agent.models.activations import AHEAD_NS, Activation, decode_activation
from agent.offline.inputs import bounded_source
from agent.offline.replay import replay
from agent.settings import load_plant
from connectors.log_range import LogRange
from connectors.timestamps import format_iso
from tests.support.waves import HOP, PERIOD_MS, group, records, train

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bundles")
    train(place / "first", version="1")
    train(place / "second", version="2", turned=True)
    return place


@pytest.fixture
def plant(trained: Path, tmp_path: Path) -> Path:
    """A copy, because some tests damage it."""
    shutil.copytree(trained, tmp_path / "bundles")
    content = {
        "namespace": "hall",
        "source": {"kind": "file", "paths": ["*.yaml"], "format": "jsonl"},
        "groups": [group(tmp_path / "bundles" / "first")],
        "models": {"directory": "bundles"},
        "sinks": [{"kind": "jsonl", "directory": str(tmp_path / "out")}],
        "emission": {"policy": "all"},
        "http": None,
    }
    (tmp_path / "plant.yaml").write_text(yaml.safe_dump(content))
    return tmp_path


@pytest.fixture
def call(plant: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(plant)

    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", "models", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0), *capsys.readouterr()

    return called


def written(plant: Path) -> list[Activation]:
    path = plant / "bundles" / "activations.jsonl"
    return [decode_activation(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def listed(call: Call) -> dict[str, list[tuple[str, str]]]:
    code, out, _ = call("list", "--json")
    assert code == 0
    return {one["bundle"]: [(turn["group"], turn["state"]) for turn in one["groups"]] for one in json.loads(out)}


def test_the_configured_bundle_is_active_and_the_others_are_there(call: Call) -> None:
    assert listed(call) == {"first": [("waves", "active")], "second": []}
    code, out, _ = call("list")
    assert (code, len(out.splitlines())) == (0, 3)
    assert "waves" in out.splitlines()[1]


def test_an_activation_is_checked_written_and_pending(call: Call, plant: Path) -> None:
    before = time.time_ns()
    code, out, err = call("activate", "waves", "second", "--in", "90s", "--reason", "turned", "--by", "ada")
    assert (code, err) == (0, "")
    (one,) = written(plant)
    assert (one.group, one.bundle, one.by, one.reason) == ("waves", "second", "ada", "turned")
    assert one.effective_ns >= before + 90 * 10**9
    assert one.effective_ns % (HOP * PERIOD_MS * 10**6) == 0
    assert one.digest[:12] in out
    assert listed(call) == {"first": [("waves", "active")], "second": [("waves", "pending")]}


def test_a_bundle_goes_by_the_beginning_of_its_digest_too(call: Call, plant: Path) -> None:
    _, out, _ = call("list", "--json")
    digest = {one["bundle"]: one["digest"] for one in json.loads(out)}["second"]
    assert call("activate", "waves", digest[:8])[0] == 0
    assert written(plant)[0].digest == digest


def test_a_rollback_of_what_is_still_to_come_takes_its_place(call: Call, plant: Path) -> None:
    call("activate", "waves", "second", "--in", "10m")
    assert call("rollback", "waves")[0] == 0
    first, second = written(plant)
    assert second.effective_ns == first.effective_ns
    assert second.bundle is None
    assert listed(call) == {"first": [("waves", "active"), ("waves", "pending")], "second": []}


def test_a_rollback_of_the_active_model_is_a_minute_ahead(call: Call, plant: Path) -> None:
    call("activate", "waves", "second", "--in", "61s")
    path = plant / "bundles" / "activations.jsonl"
    past = json.loads(path.read_bytes()) | {"effective_ns": 10**18}
    path.write_text(json.dumps(past) + "\n")
    before = time.time_ns()
    assert call("rollback", "waves", "--reason", "false alarms")[0] == 0
    back = written(plant)[-1]
    assert back.effective_ns >= before + AHEAD_NS
    assert back.reason == "false alarms"
    assert listed(call)["second"] == [("waves", "active")]


def test_without_another_model_there_is_nothing_to_go_back_to(call: Call, plant: Path) -> None:
    code, _, err = call("rollback", "waves")
    assert (code, written(plant)) == (1, [])
    assert "nothing to roll back to" in err


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("fans", "second"), 2, "unknown group fans"),
        (("waves", "third"), 1, "no such bundle"),
        (("waves", "second", "--in", "59s"), 2, "less than a minute ahead"),
        (("waves", "second", "--at", "2020-01-01"), 2, "less than a minute ahead"),
        (("waves", "second", "--at", "soon"), 2, "--at"),
        (("waves", "second", "--in", "soon"), 2, "--in"),
        (("waves", "second", "--in", "2m", "--at", "2020-01-01"), 2, "only one of the two"),
    ],
)
def test_a_wrong_activation_is_refused_and_nothing_is_written(
    call: Call, plant: Path, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    left, _, err = call("activate", *arguments)
    assert left == code
    assert reason in err
    assert written(plant) == []


def test_a_damaged_bundle_is_not_activated_and_is_listed_with_its_problem(call: Call, plant: Path) -> None:
    (plant / "bundles" / "second" / "model.safetensors").write_bytes(b"damaged")
    code, _, err = call("activate", "waves", "second")
    assert (code, written(plant)) == (1, [])
    assert "sha256" in err
    (plant / "bundles" / "second" / "config.json").write_bytes(b"{")
    code, out, _ = call("list", "--json")
    assert "config.json" in {one["bundle"]: one["problem"] for one in json.loads(out)}["second"]


def test_two_bundles_with_one_digest_are_both_listed_and_one_that_is_gone_is_missed(call: Call, plant: Path) -> None:
    call("activate", "waves", "second")
    shutil.copytree(plant / "bundles" / "second", plant / "bundles" / "twin")
    assert listed(call)["second"] == listed(call)["twin"] == [("waves", "pending")]
    for name in ("second", "twin"):
        shutil.rmtree(plant / "bundles" / name)
    _, out, _ = call("list", "--json")
    gone = json.loads(out)[-1]
    assert (gone["problem"], gone["groups"][0]["state"]) == ("missing", "pending")


def test_a_time_is_a_windows_end_at_or_after_it(call: Call, plant: Path) -> None:
    wanted = datetime.now(tz=UTC) + timedelta(minutes=5)
    assert call("activate", "waves", "second", "--at", wanted.isoformat())[0] == 0
    late_ns = written(plant)[0].effective_ns - int(wanted.timestamp() * 1e6) * 1000
    assert 0 <= late_ns < HOP * PERIOD_MS * 10**6


def test_a_replay_knows_the_activations_too(call: Call, plant: Path) -> None:
    call("activate", "waves", "second", "--in", "61s")
    (activation,) = written(plant)
    start_ms = activation.effective_ns // 10**6 - 10_000
    lines = [
        orjson.dumps(orjson.loads(record.value or b"") | {"asset": (record.key or b"").decode()})
        for _, record in records(start_ms, range(200))
    ]
    (plant / "data.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    loaded = load_plant(plant / "plant.yaml", {})
    source, _ = bounded_source(loaded.settings, [Path("data.jsonl")], LogRange())
    done = asyncio.run(replay(loaded, source, stop=asyncio.Event(), report=lambda done, total: None))
    events = [json.loads(value) for value in done.events.values()]
    states = [event for event in events if event["type"] == "state"]
    versions = {(datetime.fromisoformat(event["window"]["end"]), event["model"]["version"]) for event in states}
    effective = datetime.fromisoformat(format_iso(activation.effective_ns))
    assert {version for end, version in versions if end < effective} == {"1"}
    assert {version for end, version in versions if end >= effective} == {"2"}
    assert (effective, "2") in versions


def test_a_plant_without_a_directory_of_bundles_says_so(call: Call, plant: Path) -> None:
    content = yaml.safe_load((plant / "plant.yaml").read_text())
    del content["models"]
    (plant / "plant.yaml").write_text(yaml.safe_dump(content))
    code, _, err = call("list")
    assert code == 2
    assert "models: missing" in err


def test_a_bundle_that_training_judged_useless_is_activated_only_if_that_is_allowed(call: Call, plant: Path) -> None:
    manifest = plant / "bundles" / "second" / "manifest.json"
    facts = json.loads(manifest.read_text())
    facts["metrics"] = {"usefulness": {"useless": ["it is near chance"]}}
    manifest.write_text(json.dumps(facts))
    code, _, err = call("activate", "waves", "second")
    assert code == 1
    assert "bundles/second: the model is not useful:" in err
    assert "--allow-useless" in err
    assert written(plant) == []
    code, _, err = call("activate", "waves", "second", "--allow-useless")
    assert code == 0
    assert "warning: not a useful model: it is near chance" in err
    assert len(written(plant)) == 1
