"""Each wrong setting is named by its path, with what is wrong and what would be right."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.settings import Examination, examine

Write = Callable[[dict[str, Any]], Path]

BUNDLE = {
    "name": "pump",
    "version": "1",
    "recipe": "joint",
    "classes": ["normal", "cavitation"],
    "channels": ["flow", "pressure"],
    "units": ["l/min", "bar"],
    "period_ns": 100_000_000,
    "length": 64,
    "patch_length": 16,
    "patch_stride": 8,
    "alignment": "sliding",
    "unequal_length": False,
    "rows": 32,
    "protocol": "honest",
}
EMBEDDED: dict[str, Any] = {
    "namespace": "hall",
    "source": {"kind": "simulator", "assets": [{"id": "pump-1", "kind": "pump"}]},
    "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "bundle"}}],
    "sinks": [{"kind": "console"}],
}
TOPICS = {"events": "e", "states": "s", "dead_letters": "d"}
ON_KAFKA: dict[str, Any] = EMBEDDED | {
    "source": {"kind": "kafka", "bootstrap": "broker:9092", "topics": ["sensors"]},
    "store": {"kind": "redis", "url": "redis://cache:6379/0"},
    "sinks": [{"kind": "kafka", "topics": TOPICS}],
}


ADVICE = {"group": "fans", "states": ["worn"], "action": "stop it"}


def changed(plant: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one setting changed: `groups.0.window` names the window of the first group."""
    copy = deepcopy(plant)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    inner: Any = copy
    for part in parents:
        inner = inner[part]
    inner[last] = value
    return copy


@pytest.fixture
def write(tmp_path: Path) -> Write:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "config.json").write_text(json.dumps(BUNDLE))

    def written(plant: dict[str, Any]) -> Path:
        (tmp_path / "plant.yaml").write_text(yaml.safe_dump(plant, sort_keys=False))
        return tmp_path / "plant.yaml"

    return written


def errors(examination: Examination) -> dict[str, str]:
    return {one.field: one.message for one in examination.problems if one.severity == "error"}


def warnings(examination: Examination) -> dict[str, str]:
    return {one.field: one.message for one in examination.problems if one.severity == "warning"}


@pytest.mark.parametrize("plant", [EMBEDDED, ON_KAFKA])
def test_a_small_plant_needs_nothing_more(plant: dict[str, Any], write: Write) -> None:
    examination = examine(write(plant), {})
    assert examination.problems == ()
    assert examination.loaded is not None


CHANNELS = [{"name": "flow"}, {"name": "pressure"}]
SASL = {"protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "u", "password": {"env": "SECRET"}}


@pytest.mark.parametrize(
    ("path", "value", "field", "words"),
    [
        ("namespace", "A hall", "namespace", "lower-case"),
        ("namspace", "x", "namspace", "did you mean namespace?"),
        ("page", {"advice": [ADVICE]}, "page.advice[0].group", "there is no group fans"),
        ("groups.0.window", {"length": 64, "hop": 65}, "groups[0].window.hop", "at most the length, 64"),
        ("groups.0.window", {"hop": 65}, "groups[0].window.hop", "use at most the length of the bundle, 64"),
        ("groups.0.window", {"length": 32}, "groups[0].window.length", "plant has 32 steps; the bundle has 64"),
        ("groups.0.window", {"lateness": 5, "idle_after": "500ms"}, "groups[0].window.idle_after", "at least 600ms"),
        ("groups.0.window", {"forget_after": "1d"}, "groups[0].window.forget_after", "use more than records.max_clock"),
        ("groups.0.window", {"lateness": -1}, "groups[0].window.lateness", "greater than or equal to 0"),
        ("groups.0.window", {"min_coverage": 1.1}, "groups[0].window.min_coverage", "less than or equal to 1"),
        ("groups.0.window", {"hop": "8"}, "groups[0].window.hop", "valid integer"),
        ("groups.0.window", {"hop": True}, "groups[0].window.hop", "true is not valid"),
        ("sinks.0", {"kind": "webhook", "url": "http://me:word@x/y"}, "sinks[0].url", "'http://***@x/y' is not valid"),
        ("groups.0.window", [], "groups[0].window", "should be a mapping"),
        ("groups.0.period", "1s", "groups[0].period", "the plant has 1s; the bundle has 100ms"),
        ("groups.0.channels", [{"name": "flow"}], "groups[0].channels", "the bundle has flow, pressure"),
        ("groups.0.channels", [*CHANNELS, {"name": "flow"}], "groups[0].channels[2].name", "duplicate name flow"),
        ("groups.0.channels", [{"name": "flow", "unit": "m3/h"}, CHANNELS[1]], "groups[0].channels[0].unit", "l/min"),
        ("groups.0.channels", [{"name": "flow", "fill": "hold"}], "groups[0].channels[0].fill_max_age", "missing"),
        ("groups.0.channels", [{"name": "flow", "scale": 0}], "groups[0].channels[0].scale", "every value the same"),
        ("groups.0.channels", [{"name": "flow", "range": [2, 1]}], "groups[0].channels[0].range", "low below high"),
        ("groups.0.channels", [{"name": "flow", "offset": float("nan")}], "groups[0].channels[0].offset", "finite"),
        (
            "groups.0.channels",
            [{"name": "flow", "fill": "hold", "fill_max_age": "99ms"}, CHANNELS[1]],
            "groups[0].channels[0].fill_max_age",
            "at least 100ms",
        ),
        ("groups.0.channels", [{"name": "a"}, {"name": "b", "field": "a"}], "groups[0].channels[1].field", "of two"),
        ("groups.0.assets", ["pump-1", "pump-?"], "groups[0].assets[1]", "overlaps with an earlier entry"),
        ("groups.0.assets", ["turbine-*"], "source.assets[0].id", "pump-1 is in no group"),
        ("groups.0.assets", [12], "groups[0].assets[0]", "put it in quotes"),
        ("groups.0.model.bundle", "elsewhere", "groups[0].model.bundle", "there is no bundle in"),
        ("groups", [], "groups", "too short; needs at least 1 item"),
        ("groups", True, "groups", "should be a list"),
        ("groups", [EMBEDDED["groups"][0]] * 2, "groups[1].name", "duplicate name pumps"),
        ("groups", [EMBEDDED["groups"][0]] * 2, "groups[1].assets[0]", "put every asset into one group"),
        ("source.assets", [{"id": "pump-1", "kind": "pump"}] * 2, "source.assets[1].id", "duplicate id pump-1"),
        ("source.speed", 0, "source.speed", "greater than 0"),
        ("source", {"kind": "mqtt"}, "source.kind", "'file'"),
        ("source", {}, "source.kind", "missing"),
        ("sinks", [], "sinks", "at least 1 item"),
        ("sinks", [{"kind": "console"}] * 2, "sinks[1]", "keep one"),
        ("sinks", [{"kind": "jsonl", "directory": "out"}] * 2, "sinks[1].directory", "another one"),
        ("sinks", [{"kind": "kafka"}], "sinks[0].topics", "missing"),
        ("sinks", [{"kind": "kafka", "topics": TOPICS}], "sinks[0].bootstrap", "the source is not Kafka"),
        ("sinks", [{"kind": "kafka", "topics": TOPICS | {"states": "e"}}], "sinks[0].topics.states", "its own topic"),
        ("sinks", [{"kind": "webhook", "url": "ftp://x"}], "sinks[0].url", "http://"),
        ("sinks", [{"kind": "console"}, {"kind": "webhook", "url": "http://x"}], "sinks[1].kind", "kafka or jsonl"),
        ("emission", {"evidence_share": 0}, "emission.evidence_share", "greater than 0"),
        ("emission", {"policy": "changes+heartbeat"}, "emission.heartbeat", "missing"),
        ("emission", {"policy": "changes+heartbeat", "heartbeat": "1s"}, "emission.heartbeat", "for example 800ms"),
        ("limits", {"memory": "1MiB"}, "limits.memory", "the windows can need 2MiB (pumps 2MiB)"),
        ("limits", {"queue_windows": 31}, "limits.queue_windows", "at least inference.batch, 32"),
        ("limits", {"memory": 5}, "limits.memory", '"64MiB"'),
        ("inference", {"device": "gpu"}, "inference.device", "auto, cpu, cuda or cuda:N"),
        ("http", {"host": "0.0.0.0"}, "http.token", "not loopback"),
        ("http", {"port": 70000}, "http.port", "65535"),
        ("records", {"format": "narrow", "values_field": "v"}, "records.values_field", "has no effect"),
        ("records", {"format": "chunked"}, "records.values_field", "arrays"),
        ("records", {"time": {"utc_offset": "+01:00"}}, "records.time.utc_offset", "only ISO"),
        ("records", {"time": {"unit": "iso", "utc_offset": "CET"}}, "records.time.utc_offset", '"+01:00"'),
    ],
)  # fmt: skip
def test_a_mistake_is_named(path: str, value: Any, field: str, words: str, write: Write) -> None:
    examination = examine(write(changed(EMBEDDED, path, value)), {})
    assert examination.loaded is None
    assert words in errors(examination)[field]


@pytest.mark.parametrize(
    ("path", "value", "field", "words"),
    [
        ("source.timeouts", {"session": "30s"}, "source.timeouts.session", "not shorter than rebalance (30s)"),
        ("source.timeouts", {"heartbeat": "6s"}, "source.timeouts.heartbeat", "a third of session"),
        ("source.timeouts", {"rebalance": "6m"}, "source.timeouts.rebalance", "at most max_poll_interval"),
        ("source.timeouts", {"max_poll_interval": "40s"}, "source.timeouts.max_poll_interval", "the retries"),
        ("source.topics", ["a", "a"], "source.topics[1]", "duplicate topic a"),
        ("source.bootstrap", "broker", "source.bootstrap", "host:port"),
        ("source.bootstrap", "broker:9092,other:90920", "source.bootstrap", "other:90920: there is no such port"),
        ("source.bootstrap", "broker:0", "source.bootstrap", "use 1 to 65535"),
        ("source.bootstrap", "user:hunter2@broker:9092", "source.bootstrap", "'***@broker:9092' is not valid"),
        ("sinks.0", {"kind": "webhook", "url": "https://a:hunter2/b@c@h/"}, "sinks[0].url", "'https://***@h/'"),
        ("store", "redis://:hunter2/@cache:6379/0", "store", "'redis://***@cache:6379/0'"),
        ("source.security", {"protocol": "SASL_SSL"}, "source.security.password", "missing"),
        ("source.security", {"username": "u"}, "source.security.username", "has no effect with PLAINTEXT"),
        ("source.security", SASL | {"password": "hunter2"}, "source.security.password", "{env: VARIABLE}"),
        ("source.security", {"protocol": "SSL", "cert_file": "plant.yaml"}, "source.security.key_file", "together"),
        ("source.security", {"protocol": "SSL", "ca_file": "none.pem"}, "source.security.ca_file", "there is no file"),
        ("sinks.0.topics", TOPICS | {"dead_letters": "sensors"}, "sinks[0].topics.dead_letters", "read its own output"),
        ("checkpoint", {"revoke_deadline": "30s"}, "checkpoint.revoke_deadline", "rebalance, 30s"),
        ("checkpoint", {"takeover_deadline": "5m"}, "checkpoint.takeover_deadline", "max_poll_interval, 5m"),
        ("checkpoint", {"every": "5m"}, "checkpoint.every", "max_poll_interval, 5m"),
        ("store.ttl", "15s", "store.ttl", "at least 15200ms"),  # 2 × (64 + 8 + 4) × 100 ms
        ("store.pause_after", "5m", "store.pause_after", "use less than 5m"),
        ("store.username", "agent", "store.password", "there is a username"),
        ("store.url", "http://cache", "store.url", "redis://host:port/number"),
        ("store.url", "redis://:hunter2@cache:1", "store.url", "contains a login"),
        ("store.tls", {"ca_file": "plant.yaml"}, "store.tls", "use rediss://"),
        ("store.url", "redis://a:1,b:2", "store.url", "redis+cluster://"),
        ("store.url", "redis+cluster://a:1/2", "store.url", "no numbered databases"),
        ("store.url", "redis+sentinel://a:1", "store.url", "name of the master is missing"),
        ("store.sentinels", {"password": {"env": "SECRET"}}, "store.sentinels", "use redis+sentinel://"),
    ],
)  # fmt: skip
def test_a_mistake_about_kafka_or_redis_is_named(path: str, value: Any, field: str, words: str, write: Write) -> None:
    plant = changed(ON_KAFKA, "groups.0.window", {"lateness": 4})
    examination = examine(write(changed(plant, path, value)), {"SECRET": "x"})
    assert words in errors(examination)[field]
    assert "hunter2" not in "".join(examination.errors)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("groups.0.window", {"min_coverage": 1.0}, "groups[0].window.min_coverage"),
        ("records", {"format": "narrow"}, "groups[0].window.lateness"),
        ("emission", {"heartbeat": "1m"}, "emission.heartbeat"),
        ("store", {"kind": "memory"}, "store.kind"),
        ("source", {"kind": "memory"}, "source.kind"),
        ("source.security", SASL | {"protocol": "SASL_PLAINTEXT"}, "source.security.protocol"),
        ("emission", {"channels": "occlusion"}, "emission.channels"),
        ("emission", {"channels": "none"}, "emission.channels"),
        ("emission", {"max_patches": 3}, "emission.max_patches"),
        ("source.bootstrap", "${KAFKA_HOST}:9092", "source.bootstrap"),
        ("source.group", "{{ .Values.group }}", "source.group"),
    ],
)
def test_what_may_be_a_mistake_is_a_warning(path: str, value: Any, field: str, write: Write) -> None:
    plant = changed(ON_KAFKA, "sinks.0.bootstrap", "broker:9092")
    examination = examine(write(changed(plant, path, value)), {"SECRET": "x"})
    assert examination.loaded is not None
    assert list(warnings(examination)) == [field]


def test_every_problem_is_reported_at_once_with_its_place(write: Write) -> None:
    plant = changed(EMBEDDED, "groups.0.window", {"length": 32})  # a contradiction to the bundle …
    plant["groups"].append({"name": "B", "assets": ["b"], "model": {"bundle": "bundle"}})  # … a wrong name …
    plant["limits"] = {"queue_windows": 1}  # … a rule between sections …
    plant["sink"] = []  # … and an unknown key
    examination = examine(write(plant), {})
    assert list(errors(examination)) == [
        "groups[0].window.length",
        "groups[1].name",
        "limits.queue_windows",
        "sink",
    ]
    lines = write(plant).read_text().splitlines()
    for problem in examination.problems:
        assert lines[problem.line - 1][problem.column - 1 :].startswith(str(problem.path[-1]))


def test_a_duplicate_key_is_an_error(write: Write) -> None:
    path = write(EMBEDDED)
    path.write_text(path.read_text() + "inference:\n  batch: 8\n  batch: 16\n")
    assert "duplicate of line" in errors(examine(path, {}))["inference.batch"]


def test_a_number_as_a_key_is_an_unknown_setting(write: Write) -> None:
    assert "known settings" in errors(examine(write(EMBEDDED | {3: 4}), {}))["3"]  # type: ignore[arg-type]  # not a string


@pytest.mark.parametrize("content", ["", "[]", '{"name": 1}', '{"channels": NaN}'])
def test_a_damaged_bundle_is_a_problem(content: str, write: Write, tmp_path: Path) -> None:
    (tmp_path / "bundle" / "config.json").write_text(content)
    assert "config.json" in errors(examine(write(EMBEDDED), {}))["groups[0].model.bundle"]


def test_a_plant_must_set_the_period_that_its_bundle_lacks(write: Write, tmp_path: Path) -> None:
    (tmp_path / "bundle" / "config.json").write_text(json.dumps(BUNDLE | {"period_ns": None}))
    assert "the bundle has none" in errors(examine(write(EMBEDDED), {}))["groups[0].period"]
    assert examine(write(changed(EMBEDDED, "groups.0.period", "1s")), {}).problems == ()


def test_a_webhook_beside_a_file_is_no_problem(write: Write) -> None:
    sinks = [{"kind": "webhook", "url": "http://x"}, {"kind": "jsonl", "directory": "out"}]
    assert examine(write(changed(EMBEDDED, "sinks", sinks)), {}).problems == ()


def test_the_former_names_of_settings_still_count(write: Write) -> None:
    loaded = examine(write(changed(EMBEDDED, "emission", {"max_patches": 3, "channels": "none"})), {}).loaded
    assert loaded is not None
    assert loaded.settings.emission.spans_limit == 3
    loaded = examine(write(changed(EMBEDDED, "emission", {"max_spans": 5})), {}).loaded
    assert loaded is not None
    assert loaded.settings.emission.spans_limit == 5
