"""The server.properties of a one-node KRaft broker. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ports:
    plain: int
    controller: int
    sasl: int
    sasl_tls: int
    mtls: int


@dataclass(frozen=True, slots=True)
class Security:
    """Files and users of the listeners beside the plain one."""

    server_bundle: Path
    authority: Path
    users: Mapping[str, str] = field(default_factory=dict)


def server_properties(directory: Path, ports: Ports, security: Security | None) -> dict[str, str]:
    listeners = {"PLAIN": ("PLAINTEXT", ports.plain), "CONTROLLER": ("PLAINTEXT", ports.controller)}
    if security is not None:
        listeners["SASL"] = ("SASL_PLAINTEXT", ports.sasl)
        listeners["SASLTLS"] = ("SASL_SSL", ports.sasl_tls)
        listeners["MTLS"] = ("SSL", ports.mtls)
    properties = {"log.dirs": str(directory / "data"), **_listeners(listeners, ports), **_SMALL, **_QUICK_RESTART}
    return properties if security is None else {**properties, **_security(security)}


def as_text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


_SMALL = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
    # Retention goes by the records' own time: tests with times of their own would lose them at the first look.
    "log.retention.ms": "-1",
}

# After kill -9 the broker waits until its old registration has expired; the defaults make that 13 s.
_QUICK_RESTART = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
}


def _listeners(listeners: Mapping[str, tuple[str, int]], ports: Ports) -> dict[str, str]:
    addresses = {name: f"{name}://127.0.0.1:{port}" for name, (_, port) in listeners.items()}
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{ports.controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAIN",
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(text for name, text in addresses.items() if name != "CONTROLLER"),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, (kind, _) in listeners.items()),
    }


def _security(security: Security) -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in security.users.items())
    modules = "org.apache.kafka.common.security"
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(security.server_bundle),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.authority),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.mtls.ssl.client.auth": "required",
    }
    for listener in ("sasl", "sasltls"):
        prefix = f"listener.name.{listener}"
        properties[f"{prefix}.plain.sasl.jaas.config"] = f"{modules}.plain.PlainLoginModule required {users};"
        properties[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{modules}.scram.ScramLoginModule required;"
    return properties
