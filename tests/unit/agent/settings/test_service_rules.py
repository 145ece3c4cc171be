"""What a cluster says about itself, and which promise it cannot keep. Numbers worked out by hand."""

import ssl
from pathlib import Path

import pytest

from agent.settings import Problem, ResolvedGroup
from agent.settings.online import Findings
from agent.settings.service_rules import (
    Needs,
    Role,
    Use,
    kafka_outage,
    kafka_problems,
    redis_outage,
    redis_problems,
    retention_needed_ms,
)
from anchormoe.windows import Grid, WindowShape
from connectors.kafka.inspection import ClusterFacts, TopicFacts
from connectors.probe import Outage, tls_failure
from connectors.redis.inspection import RedisFacts

NEEDS = Needs(retention_ms=60_000, own_timestamps=False)
SOUND = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
    "min.insync.replicas": "2",
    "retention.bytes": "-1",
    "retention.ms": "60000",
}


def found(
    role: Role, config: dict[str, str] | None = None, *, replicas: int = 3, partitions: int = 6, needs: Needs = NEEDS
) -> list[tuple[str, str, str]]:
    """(severity, field, message) of one topic whose sound configuration is changed a little."""
    topic = TopicFacts(partitions, replicas, SOUND | (config or {}))
    path = ("source", "topics", 0) if role == "input" else ("sinks", 1, "topics", role)
    facts = ClusterFacts(3, {"t": topic})
    return told(list(kafka_problems([Use(path, "t", role)], facts, needs)))


def told(problems: list[Problem]) -> list[tuple[str, str, str]]:
    return [(one.severity, one.field, one.message) for one in problems]


def group(length: int, lateness: int, period_ns: int) -> ResolvedGroup:
    shape = WindowShape(length, 1, lateness)
    return ResolvedGroup("g", ("*",), Path("bundle"), (), Grid(period_ns), shape, 0.5, length, 10, 100 * length)


def test_for_a_sound_input_only_the_number_of_agents_is_mentioned() -> None:
    [(severity, field, message)] = found("input")
    assert (severity, field) == ("info", "source.topics[0]")
    assert "6 partitions: up to 6 agents share the work" in message


def test_a_topic_that_takes_smaller_messages_than_the_sink_writes_is_named_with_both_sizes() -> None:
    topic = TopicFacts(6, 3, SOUND | {"max.message.bytes": "1000000"})
    use = Use(("sinks", 1, "topics", "events"), "t", "events", 1 << 20)
    [(severity, field, message)] = told(list(kafka_problems([use], ClusterFacts(3, {"t": topic}), NEEDS)))
    assert (severity, field) == ("warning", "sinks[1].topics.events")
    assert "max.message.bytes=1000000 is less than max_message_bytes of the sink (1048576)" in message
    enough = TopicFacts(6, 3, SOUND | {"max.message.bytes": "1048588"})
    assert not list(kafka_problems([use], ClusterFacts(3, {"t": enough}), NEEDS))


def test_one_partition_is_work_for_one_agent() -> None:
    [(severity, _, message)] = found("input", partitions=1)
    assert severity == "info"
    assert "one agent works, any other is idle" in message


@pytest.mark.parametrize(
    ("role", "policy"),
    [("events", "delete"), ("states", "compact"), ("dead_letters", "delete"), ("activations", "compact")],
)
def test_a_sound_output_is_not_mentioned(role: Role, policy: str) -> None:
    assert found(role, {"cleanup.policy": policy}) == []


@pytest.mark.parametrize(
    ("role", "config", "severity", "words"),
    [
        ("input", {"min.insync.replicas": "1"}, "warning", "set min.insync.replicas=2"),
        ("events", {"min.insync.replicas": "1"}, "warning", "set min.insync.replicas=2"),
        ("events", {"min.insync.replicas": "4"}, "error", "min.insync.replicas=4 with 3 replicas rejects every write"),
        ("input", {"unclean.leader.election.enable": "true"}, "warning", "acknowledged records can be cut off"),
        ("events", {"unclean.leader.election.enable": "true"}, "warning", "unclean.leader.election.enable=false"),
        ("input", {"retention.ms": "59999"}, "warning", "at least 60000 (60s)"),
        ("input", {"retention.bytes": "1000"}, "warning", "set retention.bytes=-1"),
        ("input", {"cleanup.policy": "compact"}, "warning", "set cleanup.policy=delete"),
        ("events", {"cleanup.policy": "compact,delete"}, "warning", "LOST; set cleanup.policy=delete"),
        ("dead_letters", {"cleanup.policy": "compact"}, "warning", "set cleanup.policy=delete"),
        ("states", {"cleanup.policy": "delete"}, "warning", "set cleanup.policy=compact"),
        ("states", {"cleanup.policy": "compact,delete"}, "warning", "set cleanup.policy=compact"),
        ("activations", {"cleanup.policy": "delete"}, "error", "the agent does not start with it"),
    ],
)
def test_each_weakness_is_reported_once_with_its_remedy(
    role: Role, config: dict[str, str], severity: str, words: str
) -> None:
    first, *others = [one for one in found(role, config) if one[0] != "info"]
    assert others == []
    assert first[0] == severity
    assert words in first[2]


@pytest.mark.parametrize("kept", ["-1", "60000", "60001"])
def test_records_that_stay_long_enough_are_no_problem(kept: str) -> None:
    assert [one for one in found("input", {"retention.ms": kept}) if one[0] != "info"] == []


def test_two_replicas_are_too_few_and_the_number_of_brokers_is_part_of_the_remedy() -> None:
    [(severity, field, message)] = found("events", replicas=2)
    assert (severity, field) == ("warning", "sinks[1].topics.events")
    assert message.endswith("; use replication factor 3")
    alone = ClusterFacts(1, {"t": TopicFacts(1, 1, SOUND | {"min.insync.replicas": "1"})})
    problems = list(kafka_problems([Use(("sinks", 0), "t", "events")], alone, NEEDS))
    assert problems[0].right == "use replication factor 3; the cluster has 1 of the 3 brokers that it needs"


@pytest.mark.parametrize(
    ("own", "kind", "expected"), [(True, "LogAppendTime", 1), (True, "CreateTime", 0), (False, "LogAppendTime", 0)]
)
def test_the_brokers_clock_matters_only_where_it_is_the_samples_time(own: bool, kind: str, expected: int) -> None:
    told = found("input", {"message.timestamp.type": kind}, needs=Needs(60_000, own_timestamps=own))
    about = [one for one in told if one[1] == "records.time.field"]
    assert [severity for severity, _, _ in about] == ["info"] * expected


@pytest.mark.parametrize(
    ("role", "severity"), [("input", "error"), ("events", "info"), ("states", "info"), ("activations", "info")]
)
def test_a_missing_topic_is_an_error_unless_the_agent_makes_it(role: Role, severity: str) -> None:
    [problem] = kafka_problems([Use(("source",), "t", role)], ClusterFacts(3, {}), NEEDS)
    assert problem.severity == severity
    assert "there is no topic t" in problem.wrong


def test_a_topic_whose_configuration_is_hidden_is_said_to_be_unchecked() -> None:
    facts = ClusterFacts(3, {"t": TopicFacts(6, 3, None)})
    [problem] = kafka_problems([Use(("source",), "t", "input")], facts, NEEDS)
    assert problem.severity == "warning"
    assert "allow DescribeConfigs" in problem.right


def test_the_retention_needed_is_twice_the_rebuild_of_the_slowest_group() -> None:
    quick = group(length=64, lateness=16, period_ns=100_000_000)  # 2 × (64 + 16 + 512) × 100 ms
    slow = group(length=10, lateness=0, period_ns=1_000_000_000)  # 2 × (10 + 0 + 80) × 1 s
    assert retention_needed_ms([quick]) == 118_400
    assert retention_needed_ms([quick, slow]) == 180_000


def test_less_than_a_millisecond_is_rounded_up() -> None:
    assert retention_needed_ms([group(length=1, lateness=0, period_ns=1)]) == 1


@pytest.mark.parametrize(
    ("facts", "severities", "words"),
    [
        (RedisFacts("noeviction", append_only=True, snapshots=False), [], ""),
        (RedisFacts("noeviction", append_only=False, snapshots=True), ["warning"], "since the last one"),
        (RedisFacts("noeviction", append_only=True, snapshots=True, append_sync="always", replicas=0), [], ""),
        (
            RedisFacts("noeviction", append_only=True, snapshots=True, append_sync="everysec"),
            ["info"],
            "about a second of",
        ),
        (RedisFacts("noeviction", append_only=True, snapshots=True, append_sync="no"), ["info"], "reads the log again"),
        (RedisFacts("noeviction", append_only=True, snapshots=None, replicas=2), ["info"], "a fail-over can lose"),
        (RedisFacts("noeviction", append_only=False, snapshots=False), ["warning"], "rebuilt from the log"),
        (RedisFacts("allkeys-lru", append_only=True, snapshots=True), ["error"], "set it to noeviction"),
        (RedisFacts("noeviction", append_only=False, snapshots=None), ["info"], "make sure it does"),
        (RedisFacts("noeviction", append_only=True, snapshots=None), [], ""),
        (RedisFacts(None, None, None), ["warning", "info"], "make sure it is noeviction"),
    ],
)
def test_redis_must_not_evict_and_should_persist(facts: RedisFacts, severities: list[str], words: str) -> None:
    problems = list(redis_problems(("store",), facts))
    assert [problem.severity for problem in problems] == severities
    assert words in "".join(problem.message for problem in problems)


@pytest.mark.parametrize(
    ("kind", "kafka", "redis"),
    [
        ("unreachable", "source.bootstrap", "store.url"),
        ("tls", "source.security", "store.tls"),
        ("login", "source.security", "store.password"),
    ],
)
def test_an_outage_names_the_setting_to_look_at(kind: str, kafka: str, redis: str) -> None:
    outage = Outage(kind, "why")  # type: ignore[arg-type] # mypy cannot see the parameters
    assert [kafka_outage(("source",), outage).field, redis_outage(("store",), outage).field] == [kafka, redis]
    assert "why" in kafka_outage(("source",), outage).wrong


def test_a_tls_error_is_found_behind_the_error_that_wraps_it() -> None:
    inner = ssl.SSLCertVerificationError(1, "long story")
    inner.verify_message = "self-signed certificate"
    outer = OSError("cannot connect")
    outer.__cause__ = inner
    assert tls_failure(outer) == Outage("tls", "self-signed certificate")
    assert tls_failure(OSError("cannot connect")) is None


def test_an_absent_service_counts_less_than_a_wrong_setting() -> None:
    absent, wrong, weak = Problem(("a",), "x"), Problem(("b",), "y"), Problem(("c",), "z", severity="warning")
    assert Findings((weak,), (absent,)).only_unreachable
    assert not Findings((weak, wrong), (absent,)).only_unreachable
    assert not Findings((weak,)).only_unreachable


@pytest.mark.parametrize(
    ("checked", "own", "kind", "expected"),
    [
        (True, False, "CreateTime", 1),
        (True, False, "LogAppendTime", 0),
        (False, False, "CreateTime", 0),
        (True, True, "CreateTime", 0),
    ],
)
def test_createtime_cannot_protect_against_a_wrong_clock(checked: bool, own: bool, kind: str, expected: int) -> None:
    needs = Needs(60_000, own_timestamps=own, clock_checked=checked)
    told = found("input", {"message.timestamp.type": kind}, needs=needs)
    about = [(severity, message) for severity, field, message in told if field == "records.max_clock_skew"]
    assert [severity for severity, _ in about] == ["info"] * expected
    assert all("LogAppendTime" in message for _, message in about)
