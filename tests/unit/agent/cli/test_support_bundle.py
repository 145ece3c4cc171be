"""A support bundle helps to find a fault, and holds nothing of a patient and no secret: every file is searched."""

import json
import stat
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from typer.testing import CliRunner

from agent.cli.main import app
from agent.health.support_bundle import (
    behind_commits,
    harmless_log_lines,
    harmless_settings,
    keys_with_scalars,
    places_in_code,
    store_figures,
)
from agent.settings import settings_schema

ROOT = Path(__file__).parents[4]
TOKEN, PASSWORD, URL_PASSWORD = "token-hunter2-token", "kafka-Pa55word!", "s3cret-in-url"
PATIENTS = ["smith-ann-1956", "Müller, Jörg", "patient-0815"]
READING = "117.25317"
METRICS = f"""# HELP anchormoe_lag_records Records still to be read.
anchormoe_lag_records{{partition="3",topic="sensors"}} 41.0
anchormoe_alarm_bad_actor_raises{{alarm="sepsis:{PATIENTS[0]}",console="ward"}} 7.0
"""
LOG = [
    {"timestamp": "2026-05-01T08:00:00Z", "level": "warning", "event": "store unreachable", "after_s": 3.5},
    {
        "level": "warning",
        "event": "an asset sends to two partitions",
        "asset": PATIENTS[0],
        "partitions": ["sensors[0]"],
    },
    {"level": "error", "event": f"lost {PATIENTS[1]}", "reason": f"hr {READING} of {PATIENTS[1]}"},
    {"level": "warning", "logger": "aiokafka", "event": f"login with {PASSWORD} refused for {PATIENTS[2]}"},
    {
        "level": "error",
        "event": "window refused",
        "exception": f'Traceback (most recent call last):\n  File "agent/app.py", line 7, in build\n'
        f"    raise ValueError(x)\nValueError: {READING} of {PATIENTS[0]}",
    },
]


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write((METRICS + f"# {TOKEN} {PATIENTS[0]}\n").encode() if allowed else b"")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Pages)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def plant(tmp_path: Path, port: int) -> Path:
    content = {
        "namespace": "ward",
        "source": {
            "kind": "kafka",
            "bootstrap": "broker:9092",
            "topics": ["sensors"],
            "security": {
                "protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-512",
                "username": PATIENTS[1],
                "password": {"env": "KAFKA_PASSWORD"},
            },
        },
        "groups": [
            {
                "name": "patients",
                "assets": [PATIENTS[0], PATIENTS[2], "bed-*"],
                "model": {"bundle": str(ROOT / "configs/bundles/patient")},
            }
        ],
        "store": {"kind": "memory"},
        "sinks": [{"kind": "jsonl", "directory": str(tmp_path / "out")}],
        "http": {"port": port, "token": {"env": "HTTP_TOKEN"}},
    }
    path = tmp_path / "plant.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True))
    (tmp_path / "agent.log").write_text("\n".join([*map(json.dumps, LOG), f"plain line about {PATIENTS[2]}"]))
    return path


def bundle(plant: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    monkeypatch.setenv("HTTP_TOKEN", TOKEN)
    out = plant.parent / "bundle.tar.gz"
    options = ["--config", str(plant), "--log", str(plant.parent / "agent.log"), "--out", str(out)]
    result = CliRunner().invoke(app, ["support-bundle", *options])
    assert result.exit_code == 0, result.output
    with tarfile.open(out) as archive:
        files = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
        return out, {name.removeprefix("support-bundle/"): each.read().decode() for name, each in files.items() if each}


def test_no_file_of_it_holds_a_secret_a_name_or_a_value(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, files = bundle(plant, monkeypatch)
    assert set(files) == {
        "settings.yaml", "versions.json", "metrics.txt", "lag.json", "store.json", "log.jsonl", "problems.json",
    }  # fmt: skip
    planted = [TOKEN, PASSWORD, *PATIENTS, READING, *(json.dumps(name)[1:-1] for name in PATIENTS)]
    assert [(name, word) for name, text in files.items() for word in planted if word in text] == []
    assert stat.S_IMODE(out.stat().st_mode) & 0o007 == 0


def test_what_helps_is_there(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, files = bundle(plant, monkeypatch)
    settings = yaml.safe_load(files["settings.yaml"])
    assert settings["source"]["security"]["password"] == {"env": "KAFKA_PASSWORD"}
    assert settings["groups"][0]["assets"] == "<left out>: 3"
    assert json.loads(files["lag.json"]) == {"sensors[3]": 41.0}
    assert json.loads(files["versions.json"])["packages"]["numpy"]
    assert json.loads(files["problems.json"]) == {"commits.json": "ConnectorError"}, "there is no Kafka here"
    log = [json.loads(line) for line in files["log.jsonl"].splitlines()]
    assert log[0] == LOG[0]
    assert log[1]["event"] == "an asset sends to two partitions"
    assert log[4]["exception"] == ["agent/app.py:7 build", "ValueError"]
    assert log[5]["left_out"] == 1


def test_an_agent_that_does_not_start_can_be_bundled(plant: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = yaml.safe_load(plant.read_text())
    content["groups"][0]["model"]["bundle"] = "nowhere"
    content["store"] = {"kind": "redis", "url": f"redis://ann:{URL_PASSWORD}@cache:6379/0"}
    plant.write_text(yaml.safe_dump(content))
    _, files = bundle(plant, monkeypatch)
    problems = json.loads(files["problems.json"])
    assert problems == dict.fromkeys(("metrics.txt", "commits.json", "store.json"), "SettingsError")
    assert not [name for name, text in files.items() if URL_PASSWORD in text]


def test_what_could_not_be_had_is_said_at_once(tmp_path: Path) -> None:
    out = tmp_path / "bundle.tar.gz"
    result = CliRunner().invoke(app, ["support-bundle", "--config", str(tmp_path / "typo.yaml"), "--out", str(out)])
    assert "could not be had: commits.json (SettingsError), " in result.stderr
    assert "settings.yaml (SettingsError)" in result.stderr


def test_how_far_a_start_would_be_behind_is_worked_out_by_partition() -> None:
    assert behind_commits("sensors", {1: 40, 0: 7}, {0: 7, 1: 52}) == {
        "sensors[0]": {"committed": 7, "end": 7, "behind": 0},
        "sensors[1]": {"committed": 40, "end": 52, "behind": 12},
    }


def test_a_log_of_hostile_lines_gives_no_line_of_its_own() -> None:
    lines = ["[1, 2]", '"text"', "{", "\x00", json.dumps({"event": ["x" * 10], "offset": {"a": "name"}})]
    kept = [json.loads(line) for line in harmless_log_lines(lines)]
    assert kept == [{"event": "<left out>"}, {"left_out": 4, "why": "not JSON; set logging.format to json"}]


def test_a_traceback_is_told_by_its_places() -> None:
    trace = 'Traceback:\n  File "a.py", line 3, in f\n    x\nconnectors.errors.ConnectorError: bed 4 says 37.1'
    assert places_in_code(trace) == ["a.py:3 f", "connectors.errors.ConnectorError"]


def test_the_store_is_told_in_numbers() -> None:
    stored = [("s[0]", "pumps", "normal"), ("s[0]", "pumps", "normal"), ("s[1]", "pumps", None)]
    assert store_figures(stored, [("s[2]", "pumps")]) == {
        "assets": [
            {"partition": "s[0]", "group": "pumps", "state": "normal", "count": 2},
            {"partition": "s[1]", "group": "pumps", "state": "none", "count": 1},
        ],
        "torn_checkpoints": [{"partition": "s[2]", "group": "pumps"}],
    }


HOSTILE = """
namespace: acme
source:
  kind: kafka
  bootstrap: "user:hunter2-a@broker:9092,other:9092"
  topics: [sensors]
  security:
    protocol: SASL_SSL
    password: hunter2-b
    key_password: {env: hunter2-c, spare: 1}
    sasl.jaas.config: 'PlainLoginModule required username="a" password="hunter2-d";'
records: {registry: {url: "https://reg:hunter2-e@host:8081/v1?apikey=hunter2-f", password: {file: hunter2-g}}}
groups: [{name: pumps, assets: [ward-7-smith], channels: [{name: hr, range: [0, 250]}], model: {bundle: bundles/pump}}]
store: "redis://:hunter2-h@cache:6379/0"
sinks:
  - {kind: webhook, url: "https://hooks.example/services/T0/hunter2-i?token=hunter2-j", token: {env: hunter2-k}}
  - {kind: webhook, url: "https://a:hunter2-l/with/slashes@hooks.example/", headers: {Authorization: Bearer hunter2-m}}
  - "ftp://hooks.example:hunter2-n@x@y"
alarms: {parents: [{asset: ward-7-smith, children: [ward-7-miller]}], webhooks: [{name: pager, secret: 52190815}]}
http: {port: 8787, token: hunter2-o}
page: hunter2-p
apiToken: hunter2-q
"""


def test_a_file_that_the_agent_refuses_because_secrets_stand_in_it_comes_out_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = tmp_path / "plant.yaml"
    plant.write_text(HOSTILE)
    (tmp_path / "agent.log").write_text("")
    _, files = bundle(plant, monkeypatch)
    found = [word for word in ("hunter2", "52190815", "smith", "miller") if word in "".join(files.values())]
    assert found == []


def test_what_a_refused_file_says_beside_its_secrets_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = tmp_path / "plant.yaml"
    plant.write_text(HOSTILE)
    (tmp_path / "agent.log").write_text("")
    _, files = bundle(plant, monkeypatch)
    settings = yaml.safe_load(files["settings.yaml"])
    assert settings["source"]["bootstrap"] == "<left out>@broker:9092,other:9092"
    assert settings["records"]["registry"]["url"] == "https://host:8081<left out>"
    assert settings["groups"][0]["channels"] == [{"name": "hr", "range": [0, 250]}]
    assert settings["groups"][0]["model"] == {"bundle": "bundles/pump"}
    assert settings["sinks"][0] == {
        "kind": "webhook", "url": "https://hooks.example<left out>", "token": {"env": "<left out>"},
    }  # fmt: skip
    assert settings["http"] == {"port": 8787, "token": "<left out>"}
    assert settings["apiToken"] == "<left out>", "the name of a key that nobody knows is told: often it is a typo"


@pytest.mark.parametrize("written", ['!!binary "aHVudGVyMg=="', "!!set {hunter2}", "{env: [hunter2]}", "[[[hunter2]]]"])
@pytest.mark.parametrize("place", ["http: {{token: {}}}", "store: {{password: {}}}", "source: {{security: {}}}"])
def test_a_secret_in_an_odd_form_is_left_out(place: str, written: str) -> None:
    content = yaml.safe_load(place.format(written))
    told = yaml.safe_dump(harmless_settings(content, keys_with_scalars(settings_schema())))
    assert "hunter2" not in told
    assert "aHVudGVyMg" not in told


@pytest.mark.parametrize("name", ["kafka", "secured", "alarms", "demo", "file-replay"])
def test_settings_of_a_valid_file_are_kept_but_for_names_logins_and_paths(name: str) -> None:
    content = yaml.safe_load((ROOT / f"configs/{name}.yaml").read_text())
    told = harmless_settings(content, keys_with_scalars(settings_schema()))
    assert left_out(told) <= {"assets", "id", "username", "paths", "directory", "url", "asset", "children"}


def left_out(value: object, key: str = "") -> set[str]:
    if isinstance(value, dict):
        return set().union(*(left_out(each, name) for name, each in value.items()))
    if isinstance(value, list):
        return set().union(*(left_out(each, key) for each in value))
    return {key} if "<left out>" in str(value) else set()
