"""Experiments without services: names of their own, the order of faults, the workload, the result."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import yaml
from typer.testing import CliRunner, Result

from agent.chaos.config import ExperimentNames, ExperimentPace, experiment_document, require_services
from agent.chaos.experiment import Experiment, Report, plan_faults
from agent.chaos.faults import FAULTS, Fault
from agent.chaos.report import ExperimentResult, FaultOutcome, wrong_states
from agent.chaos.workload import workload_assets
from agent.cli.main import app
from agent.errors import SettingsError
from agent.offline.compare import Comparison
from agent.offline.event_set import EventName
from agent.settings import load_plant, load_settings
from agent.settings.document import read_document
from agent.settings.sources import KafkaSourceSettings
from agent.settings.stores import RedisStoreSettings
from connectors.failpoints import POINTS
from tests.support.agent_process import BUNDLE

NAMES = ExperimentNames("chaos-0a1b2c3d")
MISSING = EventName("pump-1", 0, "state", "abc")


@pytest.fixture(autouse=True)
def logs_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's handler would keep the runner's stderr, which is closed after the test."""
    monkeypatch.setattr("agent.logs.set_up_logs", lambda *_, **__: None)


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    """A plant with all that an experiment must not touch."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "bundle").symlink_to(BUNDLE)
    document = {
        "namespace": "works",
        "source": {
            "kind": "kafka",
            "bootstrap": "kafka:9092",
            "topics": ["real-readings"],
            "group": "real-group",
            "instance_id": "one",
        },
        "records": {"max_clock_skew": "1h"},
        "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "bundle"}, "max_assets": 64}],
        "store": {"kind": "redis", "url": "redis://redis:6379", "password": {"file": "secret"}, "key_prefix": "works"},
        "sinks": [
            {"kind": "webhook", "url": "http://somebody/else"},
            {
                "kind": "kafka",
                "timeout": "20s",
                "topics": {"events": "real-events", "states": "real-states", "dead_letters": "real-letters"},
            },
        ],
    }
    path = tmp_path / "plant.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def document_of(path: Path) -> dict[str, Any]:
    content, settings = read_document(path).content, load_settings(path, {})
    return experiment_document(content, settings, path.parent, NAMES, ExperimentPace(member_timeout_s=3.0))


def test_an_experiment_reads_and_writes_under_names_of_its_own_only(plant: Path) -> None:
    text = yaml.safe_dump(document_of(plant))
    assert "real" not in text
    assert "somebody" not in text
    assert document_of(plant)["source"]["topics"] == ["chaos-0a1b2c3d-readings"]


def test_an_experiment_keeps_models_addresses_and_secrets_wherever_its_file_lies(plant: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copy = elsewhere / "plant.yaml"
    copy.write_text(yaml.safe_dump(document_of(plant)))
    loaded = load_plant(copy, {})
    assert loaded.settings.namespace == "chaos-0a1b2c3d"
    source, store, sink = loaded.settings.source, loaded.settings.store, loaded.settings.kafka_sink
    assert isinstance(source, KafkaSourceSettings)
    assert source.bootstrap == "kafka:9092"
    assert source.timeouts.session == 3_000_000_000
    assert isinstance(store, RedisStoreSettings)
    assert store.password is not None
    assert store.password.get_secret_value() == "x"
    assert sink is not None
    assert sink.timeout == 20_000_000_000
    assert loaded.groups[0].bundle == plant.parent / "bundle"


@pytest.mark.parametrize(
    ("section", "value", "words"),
    [
        ("source", {"kind": "memory"}, "source.kind: a chaos experiment needs kafka, not memory"),
        ("store", {"kind": "memory"}, "store.kind: a chaos experiment needs redis, not memory"),
    ],
)
def test_an_experiment_needs_kafka_and_redis(plant: Path, section: str, value: dict[str, str], words: str) -> None:
    plant.write_text(yaml.safe_dump(yaml.safe_load(plant.read_text()) | {section: value}))
    with pytest.raises(SettingsError, match=words):
        require_services(load_settings(plant, {"ANCHORMOE_KAFKA_BOOTSTRAP": "kafka:9092"}))


def test_every_kind_is_injected_before_one_is_repeated() -> None:
    order = plan_faults(["a", "b", "c"], 7, Random(1))
    assert [sorted(order[:3]), sorted(order[3:6])] == [["a", "b", "c"]] * 2
    assert len(order) == 7
    assert order == plan_faults(["a", "b", "c"], 7, Random(1))


def test_every_failpoint_has_its_fault() -> None:
    assert {f"die-{point.replace('_', '-')}" for point in POINTS} <= set(FAULTS)


def test_channels_of_no_simulated_kind_get_generic_signals(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_plant(plant, {})
    [pumps] = {asset.kind.name for asset in workload_assets(loaded, 2, 0)}
    assert pumps == "pump"
    monkeypatch.setattr("agent.offline.simulate.KINDS", {})
    assets = workload_assets(loaded, 2, 0)
    assert [asset.name for asset in assets] == ["pump-1", "pump-2"]
    values, _ = assets[0].block(0)
    assert values.shape[1] == len(loaded.groups[0].channels)
    assert values.std(axis=0).min() > 0.1


def result(*, missing: Sequence[EventName] = (), conflicts: int = 0, recovered_s: float = 1.0) -> ExperimentResult:
    compared = Comparison(equal=5, missing=missing, extra=[], different=[])
    outcomes = [FaultOutcome("agent-kill", recovered_s, 15.0)]
    return ExperimentResult("chaos-x", 0, 9.0, 100, outcomes, compared, 7, 2, conflicts, 0)


def test_events_are_the_same_only_without_any_difference_and_any_conflict() -> None:
    assert result().same
    assert not result(conflicts=1).same
    assert not result(missing=[MISSING]).same
    assert result(missing=[MISSING]).expected == 6
    assert result().as_json()["faults"] == [
        {"fault": "agent-kill", "recovered_s": 1.0, "goal_s": 15.0, "note": "", "load_average": 0.0},
    ]
    assert not result(recovered_s=15.1).outcomes[0].in_time


def event(asset: str, end: str, state: str) -> bytes:
    return orjson.dumps({"type": "state", "asset": asset, "state": state, "window": {"end": end}})


def state(asset: str, end: str, state: str) -> bytes:
    return orjson.dumps({"asset": asset, "end": end, "state": state})


def test_latest_states_must_match_the_last_events() -> None:
    events = [event("a", "2026-01-01T00:00:01Z", "high"), event("a", "2026-01-01T00:00:00.5Z", "low")]
    gap = orjson.dumps({"type": "gap", "asset": "b"})
    right, older = state("a", "2026-01-01T00:00:01Z", "high"), state("a", "2026-01-01T00:00:00.5Z", "low")
    assert wrong_states([*events, gap], [right, older]) == []
    assert wrong_states(events, [older]) == ["a"]
    assert wrong_states(events, []) == ["a"]
    assert wrong_states(events, [state("a", "2026-01-01T00:00:09Z", "high")]) == []
    assert wrong_states(events, [right, state("a", "2026-01-01T00:00:01.25Z", "low")]) == ["a"]


def run_cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["chaos", *map(str, arguments)])


def test_the_faults_are_listed() -> None:
    listed = run_cli("--list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in FAULTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "nonsense"], "is not one of"),
        (["--only", "redis-full"], "--whole-server"),
        (["--only", "broker-kill"], "which is not ours"),
        (["--only", "zombie", "--agents", "1"], "a second agent"),
        (["--member-timeout", "soon"], "--member-timeout"),
    ],
)
def test_wrong_usage_is_one_line_before_anything_is_connected(plant: Path, arguments: list[str], words: str) -> None:
    found = run_cli("--config", plant, *arguments)
    assert found.exit_code == 2
    assert words in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(("missing", "code"), [((), 0), ((MISSING,), 1)])
def test_the_exit_code_says_whether_the_events_differ(
    plant: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[EventName, ...], code: int
) -> None:
    async def tried(experiment: Experiment, faults: Sequence[Fault], report: Report) -> ExperimentResult:
        return result(missing=missing)

    monkeypatch.setattr("agent.chaos.experiment.run_experiment", tried)
    found = run_cli("--config", plant, "--logs", tmp_path / "logs")
    assert found.exit_code == code
    assert ("missing: pump-1 state abc" in found.stdout) == bool(missing)


def test_a_plant_without_services_is_refused(tmp_path: Path) -> None:
    found = run_cli("--config", Path("configs/demo.yaml"), "--logs", tmp_path)
    assert isinstance(found.exception, SettingsError)


def test_states_are_not_held_where_a_fault_breaks_the_log(tmp_path: Path) -> None:
    path = tmp_path / "plant.yaml"
    content = {"groups": [{"name": "pumps"}], "source": {}, "store": {}, "sinks": []}

    def groups(*, holds_states: bool) -> Any:
        settings = SimpleNamespace(model_dump=dict)
        names, pace = NAMES, ExperimentPace()
        found = experiment_document(content, settings, path.parent, names, pace, holds_states=holds_states)  # type: ignore[arg-type]  # only dumped
        return found["groups"]

    assert groups(holds_states=True) == [{"name": "pumps"}]
    assert groups(holds_states=False) == [{"name": "pumps", "hysteresis": {"enabled": False}}]
