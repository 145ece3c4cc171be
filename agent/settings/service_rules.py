"""Checks the configuration of Kafka and Redis against the delivery guarantees: facts in, problems out. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.settings.problems import Path, Problem, info, warning
from agent.settings.resolve import ResolvedGroup
from agent.settings.units import Duration
from connectors.timestamps import NS_PER_MS

if TYPE_CHECKING:
    from connectors.kafka.inspection import ClusterFacts, TopicFacts
    from connectors.probe import Outage
    from connectors.redis.inspection import RedisFacts

Role = Literal["input", "events", "states", "dead_letters", "activations"]
Problems = Iterator[Problem]

_REPLICAS = 3
_IN_SYNC = 2
_UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class Use:
    """A topic, what it is used for, and the setting that names it; where we write it, how large a message may be."""

    path: Path
    topic: str
    role: Role
    max_message_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What the plant needs of its input: how long records stay, and whether their timestamp is the sample's time."""

    retention_ms: int
    own_timestamps: bool
    clock_checked: bool = True
    """whether the time of a sample is compared with the record's timestamp (records.max_clock_skew)"""


def retention_needed_ms(groups: Sequence[ResolvedGroup]) -> int:
    """Twice what a rebuild may have to read, for the group that needs most."""
    return max(-(-2 * _rebuilt_steps(group) * group.grid.period_ns // NS_PER_MS) for group in groups)


def _rebuilt_steps(group: ResolvedGroup) -> int:
    remembered = (group.memory_hops - 1) * group.shape.hop
    return group.shape.length + group.shape.lateness + group.rebuild_horizon_steps + remembered


def kafka_problems(uses: Sequence[Use], facts: "ClusterFacts", needs: Needs) -> Problems:
    for use in uses:
        topic = facts.topics.get(use.topic)
        if topic is None:
            yield from _missing(use)
            continue
        yield from _replication(use, topic, facts.brokers)
        if topic.config is None:
            wrong = f"{use.topic}: this login may not read its configuration, so it was not checked"
            yield warning(use.path, wrong, "allow DescribeConfigs, or check it yourself")
            continue
        for check in _CHECKS[use.role]:
            yield from check(use, topic, needs)


def _missing(use: Use) -> Problems:
    """Only the input must exist; the agent creates the topics that it writes, if its login may."""
    if use.role == "input":
        wrong = f"there is no topic {use.topic}, or this login may not see it"
        yield Problem(use.path, wrong, "create it, name another one, or allow Describe")
    else:
        right = "the agent creates it when it starts; create it yourself to choose partitions and replication"
        yield info(use.path, f"there is no topic {use.topic} yet, or this login may not see it", right)


def _replication(use: Use, topic: "TopicFacts", brokers: int) -> Problems:
    if topic.replicas < _REPLICAS:
        wrong = f"{use.topic}: replication factor {topic.replicas}, so acknowledged records can be lost with a broker"
        few = f"; the cluster has {brokers} of the {_REPLICAS} brokers that it needs" if brokers < _REPLICAS else ""
        yield warning(use.path, wrong, f"use replication factor {_REPLICAS}{few}")


def _in_sync(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    least = _number(topic, "min.insync.replicas", _IN_SYNC)
    if least > topic.replicas:
        wrong = f"{use.topic}: min.insync.replicas={least} with {topic.replicas} replicas rejects every write"
        yield Problem(use.path, wrong, f"use {_REPLICAS} replicas and min.insync.replicas={_IN_SYNC}")
    if least < _IN_SYNC:
        wrong = f"{use.topic}: min.insync.replicas={least}, so a record is acknowledged by one broker alone"
        yield warning(use.path, wrong, f"set min.insync.replicas={_IN_SYNC}")


def _no_unclean_election(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    if (topic.config or {}).get("unclean.leader.election.enable") == "true":
        wrong = f"{use.topic}: unclean.leader.election.enable=true, so acknowledged records can be cut off"
        yield warning(use.path, wrong, "set unclean.leader.election.enable=false")


def _retention_time(use: Use, topic: "TopicFacts", needs: Needs) -> Problems:
    retention_ms = _number(topic, "retention.ms", _UNLIMITED)
    if "delete" in _policies(topic) and retention_ms != _UNLIMITED and retention_ms < needs.retention_ms:
        setting = f"retention.ms={retention_ms} ({_time(retention_ms)})"
        wrong = f"{use.topic}: {setting}, so lost windows cannot always be rebuilt from it"
        yield warning(use.path, wrong, f"use at least {needs.retention_ms} ({_time(needs.retention_ms)})")


def _retention_size(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    size = _number(topic, "retention.bytes", _UNLIMITED)
    if "delete" in _policies(topic) and size != _UNLIMITED:
        wrong = f"{use.topic}: retention.bytes={size} deletes by size, so a burst shortens the history"
        yield warning(use.path, wrong, "set retention.bytes=-1 and use retention.ms")


def _not_compacted(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    if "compact" in _policies(topic):
        wrong = f"{use.topic}: compacted, so all but the last record of each asset are LOST"
        yield warning(use.path, wrong, "set cleanup.policy=delete")


def _compacted_states(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    if _policies(topic) != {"compact"}:
        policy = ",".join(sorted(_policies(topic)))
        wrong = f"{use.topic}: cleanup.policy={policy}, so the states of assets that rarely change are deleted"
        yield warning(use.path, wrong, "set cleanup.policy=compact")


def _compacted_activations(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    if _policies(topic) != {"compact"}:
        policy = ",".join(sorted(_policies(topic)))
        wrong = f"{use.topic}: cleanup.policy={policy} would delete activations; the agent does not start with it"
        yield Problem(use.path, wrong, "set cleanup.policy=compact")


def _timestamp_type(use: Use, topic: "TopicFacts", needs: Needs) -> Problems:
    kind = (topic.config or {}).get("message.timestamp.type")
    if needs.own_timestamps and kind == "LogAppendTime":
        wrong = f"null, and {use.topic} has LogAppendTime: the time of a sample is when the broker received it"
        yield info(("records", "time", "field"), wrong, "name a field, or set message.timestamp.type=CreateTime")
    if needs.clock_checked and not needs.own_timestamps and kind == "CreateTime":
        wrong = f"{use.topic} has CreateTime: the producer whose clock is wrong also writes what it is checked against"
        yield info(("records", "max_clock_skew"), wrong, "set message.timestamp.type=LogAppendTime for a real check")


def _message_size(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    wanted = use.max_message_bytes or 0
    taken = _number(topic, "max.message.bytes", wanted)
    if taken < wanted:
        setting = f"max.message.bytes={taken} is less than max_message_bytes of the sink ({wanted})"
        wrong = f"{use.topic}: {setting}, so larger dead letters lose their value and larger events their patches"
        yield warning(use.path, wrong, f"set max.message.bytes={wanted} or more")


def _partitions(use: Use, topic: "TopicFacts", _: Needs) -> Problems:
    count = topic.partitions
    if count == 1:
        words = "1 partition: one agent works, any other is idle"
    else:
        words = f"{count} partitions: up to {count} agents share the work"
    yield info(use.path, f"{use.topic}: {words}", "changing the number later needs a new namespace")


_CHECKS: dict[Role, tuple[Callable[[Use, "TopicFacts", Needs], Problems], ...]] = {
    "input": (
        _in_sync,
        _no_unclean_election,
        _not_compacted,
        _retention_time,
        _retention_size,
        _timestamp_type,
        _partitions,
    ),
    "events": (_in_sync, _no_unclean_election, _not_compacted, _message_size),
    "states": (_in_sync, _no_unclean_election, _compacted_states, _message_size),
    "dead_letters": (_in_sync, _no_unclean_election, _not_compacted, _message_size),
    "activations": (_in_sync, _no_unclean_election, _compacted_activations),
}


def redis_problems(path: Path, facts: "RedisFacts") -> Problems:
    """`path` is that of the store."""
    policy = facts.maxmemory_policy
    if policy is None:
        wrong = "the server does not show its maxmemory-policy, so it was not checked"
        yield warning(path, wrong, "make sure it is noeviction, or allow CONFIG GET or INFO")
    elif policy != "noeviction":
        yield Problem(path, f"maxmemory-policy is {policy}: windows can be evicted", "set it to noeviction")
    yield from _lost_by_a_crash(path, facts)
    if facts.replicas:
        wrong = "replication is asynchronous: a fail-over can lose windows that were acknowledged"
        yield info(path, wrong, f"nothing; {_REBUILT}")


_REBUILT = (
    "the agent notices it and reads the log again from an older checkpoint, so the input's retention must reach back"
)


def _lost_by_a_crash(path: Path, facts: "RedisFacts") -> Problems:
    """What Redis has acknowledged and does not have after a crash or a power cut."""
    if facts.append_only is False and facts.snapshots is False:
        wrong = (
            'persistence is off (appendonly no, save ""): after a restart of Redis all windows are rebuilt from the log'
        )
        yield warning(path, wrong, "set appendonly yes")
    elif facts.append_only is False and facts.snapshots:
        wrong = "only snapshots persist (appendonly no): a crash of Redis loses every window stored since the last one"
        yield warning(path, wrong, f"set appendonly yes; without it {_REBUILT}")
    elif not facts.append_only and facts.snapshots is None:
        yield info(path, "the server does not show whether it persists data", "make sure it does, or allow CONFIG GET")
    elif facts.append_only and facts.append_sync not in ("always", None):
        share = "about a second of" if facts.append_sync == "everysec" else "some"
        wrong = f"appendfsync is {facts.append_sync}: a power cut can lose {share} acknowledged windows"
        yield info(path, wrong, f"nothing; {_REBUILT}")


def kafka_outage(section: Path, outage: "Outage") -> Problem:
    """`section` is the source or sink of the cluster."""
    match outage.kind:
        case "login":
            return Problem((*section, "security"), f"Kafka rejects the login: {outage.reason}", "correct it")
        case "tls":
            return Problem(
                (*section, "security"), f"TLS with Kafka failed: {outage.reason}", "check ca_file and cert_file"
            )
        case "unreachable" | "topology":
            return Problem(
                (*section, "bootstrap"), f"Kafka: {outage.reason}", "start it, or correct the address or the security"
            )


def redis_outage(path: Path, outage: "Outage") -> Problem:
    match outage.kind:
        case "login":
            return Problem((*path, "password"), f"Redis rejects the login: {outage.reason}", "correct it")
        case "tls":
            return Problem((*path, "tls"), f"TLS with Redis failed: {outage.reason}", "check ca_file and cert_file")
        case "topology":
            wrong, _, right = outage.reason.partition("; ")
            return Problem((*path, "url"), f"Redis: {wrong}", right)
        case "unreachable":
            return Problem((*path, "url"), f"Redis: {outage.reason}", "start it, or correct the address")


def _policies(topic: "TopicFacts") -> set[str]:
    return {part.strip() for part in (topic.config or {}).get("cleanup.policy", "delete").split(",")}


def _number(topic: "TopicFacts", name: str, default: int) -> int:
    return int((topic.config or {}).get(name, default))


def _time(milliseconds: int) -> str:
    """For people: three digits in the largest suitable unit."""
    nanoseconds = milliseconds * NS_PER_MS
    for unit in ("d", "h", "m", "s"):
        if nanoseconds >= 2 * Duration.UNITS[unit]:
            return f"{nanoseconds / Duration.UNITS[unit]:.3g}{unit}"
    return f"{milliseconds}ms"
