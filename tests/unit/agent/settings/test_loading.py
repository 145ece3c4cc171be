"""Environment, secrets, paths and YAML: how a file becomes settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.errors import SettingsError
from agent.settings import (
    KafkaSinkSettings,
    KafkaSourceSettings,
    Plant,
    RedisStoreSettings,
    examine,
    load_plant,
    load_settings,
)

BASE: dict[str, Any] = {
    "namespace": "hall",
    "source": {"kind": "kafka", "bootstrap": "broker:9092", "topics": ["sensors"]},
    "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "models/pump"}}],
    "store": {"kind": "redis", "url": "redis://cache:6379/0"},
    "sinks": [{"kind": "kafka", "topics": {"events": "e", "states": "s", "dead_letters": "d"}}],
}


def settings(tmp_path: Path, environ: dict[str, str], **sections: Any) -> Plant:
    path = tmp_path / "plant.yaml"
    path.write_text(yaml.safe_dump(BASE | sections))
    return load_settings(path, environ)


def source_of(plant: Plant) -> KafkaSourceSettings:
    assert isinstance(plant.source, KafkaSourceSettings)
    return plant.source


def store_of(plant: Plant) -> RedisStoreSettings:
    assert isinstance(plant.store, RedisStoreSettings)
    return plant.store


def sink_of(plant: Plant) -> KafkaSinkSettings:
    assert isinstance(plant.sinks[0], KafkaSinkSettings)
    return plant.sinks[0]


def test_each_agent_has_its_instance_id_from_its_environment(tmp_path: Path) -> None:
    named = settings(tmp_path, {"ANCHORMOE_KAFKA_BOOTSTRAP": "k:1", "ANCHORMOE_KAFKA_INSTANCE_ID": "agent-3"})
    assert getattr(named.source, "instance_id", "") == "agent-3"
    assert getattr(settings(tmp_path, {"ANCHORMOE_KAFKA_BOOTSTRAP": "k:1"}).source, "instance_id", "") is None


def test_addresses_from_the_environment_win(tmp_path: Path) -> None:
    plant = settings(tmp_path, {"ANCHORMOE_KAFKA_BOOTSTRAP": "k:1", "ANCHORMOE_REDIS_URL": "redis://r:2"})
    assert source_of(plant).bootstrap == "k:1"
    assert sink_of(plant).bootstrap == "k:1"
    assert store_of(plant).url == "redis://r:2"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ANCHORMOE_REDIS_URI", "ANCHORMOE_REDIS_URL"),
        ("ANCHORMOE_KAFKA_BOOTSTRAP_SERVERS", "ANCHORMOE_KAFKA_BOOTSTRAP"),
        ("ANCHORMOE_REDIS_PORT", None),  # Kubernetes names a Service so
        ("ANCHORMOE_BACKEND", None),
        ("REDIS_URL", None),
    ],
)
def test_a_variable_that_is_nearly_ours_is_told(tmp_path: Path, name: str, meant: str | None) -> None:
    path = tmp_path / "plant.yaml"
    path.write_text(yaml.safe_dump(BASE))
    told = [line for line in examine(path, {name: "x"}, with_bundles=False).warnings if name in line]
    assert told == (
        [] if meant is None else [f"{path}: the environment variable {name} is not used; did you mean {meant}?"]
    )


def test_a_variable_that_the_plant_names_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "plant.yaml"
    path.write_text(yaml.safe_dump(BASE | {"http": {"token": {"env": "ANCHORMOE_REDIS_URLS"}}}))
    assert examine(path, {"ANCHORMOE_REDIS_URLS": "x" * 20}, with_bundles=False).warnings == []


def test_a_login_in_the_address_of_the_environment_moves_out_of_sight(tmp_path: Path) -> None:
    store = store_of(settings(tmp_path, {"ANCHORMOE_REDIS_URL": "rediss://agent:hunter%202@r:2/1"}))
    assert (store.url, store.username) == ("rediss://r:2/1", "agent")
    assert store.password is not None
    assert store.password.get_secret_value() == "hunter 2"
    assert "hunter" not in repr(store) + str(store.model_dump()) + store.model_dump_json()


@pytest.mark.parametrize("reference", [{"env": "PASSWORD"}, {"file": "secret"}])
def test_a_secret_comes_from_the_environment_or_a_file_and_is_never_shown(
    tmp_path: Path, reference: dict[str, str]
) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    security = {"protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "u", "password": reference}
    plant = settings(tmp_path, {"PASSWORD": "hunter2"}, source=BASE["source"] | {"security": security})
    password = source_of(plant).security.password
    assert password is not None
    assert password.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(plant) + plant.model_dump_json()


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"env": "MISSING"}, "MISSING is not set"),
        ({"env": "EMPTY"}, "EMPTY is not set"),
        ({"file": "nowhere"}, "No such file"),
        ({"file": "."}, "Is a directory"),
        ({"file": "empty"}, "is empty"),
        ({"file": "binary"}, "not text"),
        ({"env": "A", "file": "b"}, "{env: VARIABLE} or {file: PATH}"),
        ({"vault": "x"}, "{env: VARIABLE} or {file: PATH}"),
        ("hunter2", "{env: VARIABLE} or {file: PATH}"),
    ],
)
def test_a_secret_that_cannot_be_read_is_a_problem(tmp_path: Path, reference: object, words: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError) as refused:
        settings(tmp_path, {"EMPTY": ""}, http={"token": reference})
    assert words in str(refused.value)
    assert "http.token" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_kafka_sink_shares_the_cluster_and_the_login_of_the_source(tmp_path: Path) -> None:
    security = {"protocol": "SSL"}
    sink = sink_of(settings(tmp_path, {}, source=BASE["source"] | {"security": security}))
    assert sink.bootstrap == "broker:9092"
    assert sink.security is not None
    assert sink.security.protocol == "SSL"


def test_a_kafka_sink_with_its_own_address_keeps_it_and_borrows_no_login(tmp_path: Path) -> None:
    source = BASE["source"] | {"security": {"protocol": "SSL"}}
    sinks = [BASE["sinks"][0] | {"bootstrap": "other:9092"}]
    sink = sink_of(settings(tmp_path, {"ANCHORMOE_KAFKA_BOOTSTRAP": "k:1"}, source=source, sinks=sinks))
    assert (sink.bootstrap, sink.security) == ("other:9092", None)


EMBEDDED = {"kind": "simulator", "assets": [{"id": "pump-1", "kind": "pump"}]}
ELSEWHERE = BASE["sinks"][0] | {"bootstrap": "other:9092"}


def test_an_address_from_the_environment_reaches_a_sink_that_names_none(tmp_path: Path) -> None:
    plant = settings(tmp_path, {"ANCHORMOE_KAFKA_BOOTSTRAP": "k:1"}, source=EMBEDDED)
    assert sink_of(plant).bootstrap == "k:1"


def test_without_a_kafka_source_the_environment_overrides_the_address_of_the_sinks(tmp_path: Path) -> None:
    environ = {"ANCHORMOE_KAFKA_BOOTSTRAP": "k:1"}
    assert sink_of(settings(tmp_path, environ, source=EMBEDDED, sinks=[ELSEWHERE])).bootstrap == "k:1"
    assert sink_of(settings(tmp_path, {}, source=EMBEDDED, sinks=[ELSEWHERE])).bootstrap == "other:9092"
    topics = {"events": "e2", "states": "s2", "dead_letters": "d2"}
    two = [ELSEWHERE, BASE["sinks"][0] | {"bootstrap": "third:9092", "topics": topics}]
    clusters = [
        sink.model_dump()["bootstrap"] for sink in settings(tmp_path, environ, source=EMBEDDED, sinks=two).sinks
    ]
    assert clusters == ["other:9092", "third:9092"]  # two clusters on purpose


def test_a_wrong_address_in_the_environment_is_a_problem_of_the_sink(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"sinks\[0\]\.bootstrap: 'nowhere' is not valid; use host:port"):
        settings(tmp_path, {"ANCHORMOE_KAFKA_BOOTSTRAP": "nowhere"}, source=EMBEDDED, sinks=[ELSEWHERE])


def test_inputs_are_relative_to_the_file_and_outputs_are_not(tmp_path: Path) -> None:
    plant = settings(tmp_path, {}, sinks=[{"kind": "jsonl", "directory": "out"}])
    assert plant.groups[0].model.bundle == tmp_path / "models" / "pump"
    assert plant.sinks[0].model_dump()["directory"] == Path("out")


def test_the_consumer_group_follows_the_namespace(tmp_path: Path) -> None:
    assert settings(tmp_path, {}).consumer_group == "anchormoe-hall"
    assert settings(tmp_path, {}, source=BASE["source"] | {"group": "mine"}).consumer_group == "mine"


def test_loading_for_a_run_demands_the_bundles(tmp_path: Path) -> None:
    settings(tmp_path, {})
    with pytest.raises(SettingsError, match=r"plant\.yaml:\d+:\d+: groups\[0\]\.model\.bundle: there is no bundle"):
        load_plant(tmp_path / "plant.yaml", {})


def test_recordings_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"source\.paths\[0\]: no file matches"):
        settings(tmp_path, {}, source={"kind": "file", "paths": ["*.csv"]}, sinks=[{"kind": "console"}])
    (tmp_path / "a.csv").touch()
    (tmp_path / "a.txt").touch()
    with pytest.raises(SettingsError, match=r"source\.paths\[0\]: the suffix '\.txt'"):
        settings(tmp_path, {}, source={"kind": "file", "paths": ["a.txt"]}, sinks=[{"kind": "console"}])
    settings(tmp_path, {}, source={"kind": "file", "paths": ["*.csv"]}, sinks=[{"kind": "console"}])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [1\nb: 2", "plant.yaml:2:2: not YAML"),
        (b"a: b: c", "plant.yaml:1:5: not YAML"),
        (b"a: \x01", "not YAML"),
        (b"a: 2024-13-45", "not YAML"),
        (b"a: !!python/name:os.system x", "plant.yaml:1:4: not YAML"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"", "must be a mapping"),
        (b"- 1", "must be a mapping"),
        (b"namespace: a\n---\nnamespace: b", "plant.yaml:2:1: not YAML"),
        (b"a: &a [*a]", "a: unknown setting"),
        (b"#" * (4 * 2**20 + 1), "at most 4194304"),
    ],
)
def test_what_is_no_configuration_gets_a_reason(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "plant.yaml").write_bytes(content)
    with pytest.raises(SettingsError) as refused:
        load_plant(tmp_path / "plant.yaml", {})
    assert words in str(refused.value)


@pytest.mark.parametrize(("name", "words"), [("missing.yaml", "No such file"), (".", "Is a directory")])
def test_what_cannot_be_read_gets_one_line(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_plant(tmp_path / name, {})
    assert len(refused.value.problems) == 1
    assert words in refused.value.problems[0]
