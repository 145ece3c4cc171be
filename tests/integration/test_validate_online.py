"""`validate --online` against a real broker and real servers: what they cannot promise, in the form of any problem."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from agent.cli.main import main
from tests.conftest import KafkaFactory, RedisFactory
from tests.support.agent_process import Names, write_plant
from tests.support.services.kafka import Broker
from tests.support.services.ports import free_port

Validate = Callable[..., tuple[int, dict[str, Any]]]
Plant = Callable[..., Path]


@pytest.fixture
def names(topic_name: str) -> Names:
    return Names(topic_name)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["anchormoe-agent", "validate", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        return int(code or 0), *capfd.readouterr()

    return call


@pytest.fixture
def validate(called: Callable[..., tuple[int, str, str]]) -> Validate:
    def call(plant: Path) -> tuple[int, dict[str, Any]]:
        code, out, err = called(str(plant), "--online", "--json")
        assert err == "", "the clients' own lines are not for the user"
        return code, json.loads(out)

    return call


@pytest.fixture
def plant(names: Names, tmp_path: Path) -> Plant:
    """Topics are made by the test; sections given replace those of the plant."""

    def write(bootstrap: str, redis_url: str, **sections: Any) -> Path:
        path = write_plant(tmp_path / "plant.yaml", names, bootstrap=bootstrap, redis_url=redis_url)
        content = yaml.safe_load(path.read_text())
        for name, changes in sections.items():
            content[name] |= changes
        path.write_text(yaml.safe_dump(content))
        return path

    return write


def make_topics(broker: Broker, names: Names, **configs: Mapping[str, str]) -> None:
    broker.create_topic(names.input, 3, configs.get("input"))
    for stream in ("events", "states", "dead-letters"):
        broker.create_topic(names.output(stream), 1, configs.get(stream.replace("-", "_")))


def words(findings: list[dict[str, Any]], field: str) -> str:
    return " / ".join(f"{one['wrong']}; {one['right']}" for one in findings if one["field"] == field)


def test_one_broker_is_valid_with_warnings_about_what_it_cannot_promise(
    kafka: Broker, redis_factory: RedisFactory, names: Names, plant: Plant, validate: Validate
) -> None:
    make_topics(kafka, names, states={"cleanup.policy": "compact"})
    code, told = validate(plant(kafka.bootstrap, redis_factory(persistent=True).url))
    assert (code, told["valid"], told["errors"]) == (0, True, [])
    outputs = [f"sinks[0].topics.{role}" for role in ("events", "states", "dead_letters")]
    assert sorted({one["field"] for one in told["warnings"]}) == sorted(["source.topics[0]", *outputs])
    assert "replication factor 1" in words(told["warnings"], "source.topics[0]")
    assert "set min.insync.replicas=2" in words(told["warnings"], "sinks[0].topics.states")
    assert "3 partitions: up to 3 agents" in words(told["infos"], "source.topics[0]")
    assert all(one["line"] for one in told["warnings"])


def test_what_the_topics_would_lose_is_told(
    kafka: Broker, redis_factory: RedisFactory, names: Names, plant: Plant, validate: Validate
) -> None:
    brief = {"retention.ms": "1000", "retention.bytes": "100000", "message.timestamp.type": "LogAppendTime"}
    compact = {"cleanup.policy": "compact"}
    make_topics(kafka, names, input=brief, events=compact, dead_letters=compact)
    path = plant(kafka.bootstrap, redis_factory(persistent=True).url, records={"time": {"field": None}})
    code, told = validate(path)
    assert code == 0
    assert "retention.ms=1000 (1000ms)" in words(told["warnings"], "source.topics[0]")
    assert "retention.bytes=100000" in words(told["warnings"], "source.topics[0]")
    assert "set cleanup.policy=compact" in words(told["warnings"], "sinks[0].topics.states")
    assert "LOST" in words(told["warnings"], "sinks[0].topics.events")
    assert "LOST" in words(told["warnings"], "sinks[0].topics.dead_letters")
    assert "LogAppendTime" in words(told["infos"], "records.time.field")


def test_a_missing_input_is_an_error_missing_outputs_are_told_and_asking_makes_none(
    kafka_factory: KafkaFactory, redis_factory: RedisFactory, plant: Plant, validate: Validate
) -> None:
    generous = kafka_factory(properties={"auto.create.topics.enable": "true"})
    path = plant(generous.bootstrap, redis_factory(persistent=True).url)
    outputs = ["sinks[0].topics.events", "sinks[0].topics.states", "sinks[0].topics.dead_letters"]
    for turn in range(2):
        code, told = validate(path)
        assert (code, [one["field"] for one in told["errors"]]) == (2, ["source.topics[0]"])
        assert [one["field"] for one in told["infos"]] == outputs
        generous.create_topic(f"later-{turn}")  # whatever was asked of the controller before is done by now


def test_a_redis_that_evicts_is_an_error_and_one_without_persistence_a_warning(
    kafka: Broker, redis_factory: RedisFactory, names: Names, plant: Plant, validate: Validate
) -> None:
    make_topics(kafka, names)
    code, told = validate(plant(kafka.bootstrap, redis_factory(max_memory_policy="allkeys-lru").url))
    assert code == 2
    assert [(one["field"], one["right"]) for one in told["errors"]] == [("store", "set it to noeviction")]
    assert "rebuilt from the log" in words(told["warnings"], "store")


def test_where_config_is_forbidden_info_speaks_and_where_both_are_it_is_said(
    kafka: Broker, redis_factory: RedisFactory, names: Names, plant: Plant, validate: Validate, tmp_path: Path
) -> None:
    make_topics(kafka, names)
    users = ("informed on >secret ~* +@all -config", "blind on >secret ~* +@all -config -info")
    server = redis_factory(users=users, max_memory_policy="allkeys-lru")
    (tmp_path / "secret").write_text("secret")
    login = {"password": {"file": "secret"}}
    code, told = validate(plant(kafka.bootstrap, server.url, store=login | {"username": "informed"}))
    assert (code, words(told["errors"], "store")[:31]) == (2, "maxmemory-policy is allkeys-lru")
    code, told = validate(plant(kafka.bootstrap, server.url, store=login | {"username": "blind"}))
    assert code == 0
    assert "does not show its maxmemory-policy" in words(told["warnings"], "store")


def test_absent_services_are_told_in_one_line_each_and_the_exit_code_is_one(
    plant: Plant, called: Callable[..., tuple[int, str, str]]
) -> None:
    path = plant(f"127.0.0.1:{free_port()}", f"redis://127.0.0.1:{free_port()}/0")
    code, out, err = called(str(path), "--online")
    assert (code, out) == (1, "")
    first, second = err.splitlines()
    assert "source.bootstrap: Kafka: cannot connect to 127.0.0.1" in first
    assert "store.url: Redis: " in second


def test_a_wrong_setting_weighs_more_than_an_absent_service(kafka: Broker, plant: Plant, validate: Validate) -> None:
    code, told = validate(plant(kafka.bootstrap, f"redis://127.0.0.1:{free_port()}/0"))
    assert code == 2
    assert {"source.topics[0]", "store.url"} <= {one["field"] for one in told["errors"]}


def test_refused_logins_and_untrusted_certificates_are_settings_to_correct(
    kafka_factory: KafkaFactory, redis_factory: RedisFactory, plant: Plant, validate: Validate, tmp_path: Path
) -> None:
    broker = kafka_factory(users={"agent": "right"})
    server = redis_factory(tls=True)
    (tmp_path / "secret").write_text("wrong-one")
    login = {"username": "agent", "password": {"file": "secret"}}
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        security = login | {"protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
        code, told = validate(plant(broker.sasl_bootstrap, server.url, source={"security": security}))
        assert code == 2
        assert words(told["errors"], "source.security").startswith("Kafka rejects the login: ")
        assert words(told["errors"], "store.tls").startswith("TLS with Redis failed: ")
        assert "wrong-one" not in json.dumps(told)

    untrusting = login | {"protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    store = {"tls": {"ca_file": str(server.authority.certificate)}} | login
    code, told = validate(plant(broker.sasl_tls_bootstrap, server.url, source={"security": untrusting}, store=store))
    assert code == 2
    assert words(told["errors"], "source.security").startswith("TLS with Kafka failed: ")
    assert words(told["errors"], "store.password").startswith("Redis rejects the login: ")


def test_a_listener_that_wants_more_than_it_gets_is_hinted_at(
    kafka_factory: KafkaFactory, redis_factory: RedisFactory, plant: Plant, validate: Validate
) -> None:
    broker, server = kafka_factory(users={"agent": "right"}), redis_factory()
    code, told = validate(plant(broker.mtls_bootstrap, server.url))
    assert code == 1
    assert "expects TLS" in words(told["errors"], "source.bootstrap")
    trusting = {"protocol": "SSL", "ca_file": str(broker.authority.certificate)}
    code, told = validate(plant(broker.mtls_bootstrap, server.url, source={"security": trusting}))
    assert code != 0  # the broker's refusal comes after the handshake: as an alert, or as a hang-up if that is faster
    assert len(told["errors"]) == 1


def test_asking_changes_nothing_in_redis(
    kafka: Broker, redis_factory: RedisFactory, names: Names, plant: Plant, validate: Validate
) -> None:
    make_topics(kafka, names)
    server = redis_factory(persistent=True)
    validate(plant(kafka.bootstrap, server.url))
    with closing(redis.Redis.from_url(server.url)) as client:
        assert client.dbsize() == 0


def test_online_and_without_secrets_exclude_each_other(called: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = called("plant.yaml", "--online", "--without-secrets")
    assert (code, err) == (2, "error: --online needs the secrets; remove --without-secrets\n")
