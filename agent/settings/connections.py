"""Kafka clusters, Redis servers and key prefixes from the settings."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from agent.settings import KafkaSecurity, KafkaSinkSettings, Plant, RedisStoreSettings
from agent.settings.formats import group_layouts, record_format
from agent.settings.records import Records
from agent.settings.resolve import ResolvedGroup
from agent.settings.secrets import current_secret

if TYPE_CHECKING:
    from connectors.decoding import Decoder
    from connectors.kafka.cluster import Cluster
    from connectors.redis.server import Server
    from connectors.schema_registry import SchemaDirectory, SchemaRegistry


def cluster_of(bootstrap: str | None, security: KafkaSecurity) -> "Cluster":
    from connectors.kafka.cluster import Cluster

    return Cluster(
        bootstrap=bootstrap or "",
        protocol=security.protocol,
        mechanism=security.sasl_mechanism,
        username=security.username,
        password=current_secret(security.password),
        ca_file=_text(security.ca_file),
        cert_file=_text(security.cert_file),
        key_file=_text(security.key_file),
        key_password=current_secret(security.key_password),
    )


def sink_cluster(sink: KafkaSinkSettings) -> "Cluster":
    """The cluster that a sink writes to; loading the settings has filled in the source's address where it had none."""
    return cluster_of(sink.bootstrap, sink.security or KafkaSecurity())


def server_of(store: RedisStoreSettings) -> "Server":
    from connectors.redis.server import Server

    return Server(
        url=store.url or "",
        username=store.username,
        password=current_secret(store.password),
        ca_file=_text(store.tls.ca_file),
        cert_file=_text(store.tls.cert_file),
        key_file=_text(store.tls.key_file),
        sentinel_username=store.sentinels.username,
        sentinel_password=current_secret(store.sentinels.password),
        sentinel_tls=store.sentinels.tls,
        timeout_s=store.timeout.seconds,
        attempts=store.retries.attempts,
        first_pause_s=store.retries.first_pause.seconds,
        longest_pause_s=store.retries.longest_pause.seconds,
    )


def schema_source(records: Records) -> "SchemaRegistry | SchemaDirectory | None":
    """Raises `ConnectorError`."""
    registry = records.registry
    if registry is None:
        return None
    from connectors.schema_registry import RegistryAddress, SchemaDirectory, SchemaRegistry

    if registry.directory is not None:
        return SchemaDirectory(registry.directory, registry.max_schema_bytes)
    address = RegistryAddress(
        url=registry.url or "",
        username=registry.username,
        password=current_secret(registry.password),
        ca_file=_text(registry.ca_file),
        timeout_s=registry.timeout.seconds,
        attempts=registry.retries.attempts,
        first_pause_s=registry.retries.first_pause.seconds,
        longest_pause_s=registry.retries.longest_pause.seconds,
        max_schema_bytes=registry.max_schema_bytes,
        max_schemas=registry.cache,
    )
    return SchemaRegistry(address)


def make_decoder(groups: Iterable[ResolvedGroup], records: Records) -> "Decoder":
    from connectors.decoding import Decoder

    return Decoder(group_layouts(groups), record_format(records), schema_source(records))


def window_prefix(settings: Plant, store: RedisStoreSettings) -> str:
    """The prefix of the keys of all stored windows.

    A consumer group with a name of its own has keys of its own: staging may read beside production in one namespace.
    """
    prefix = f"{store.key_prefix}:{settings.namespace}"
    own = settings.consumer_group != f"anchormoe-{settings.namespace}"
    return f"{prefix}:{quote(settings.consumer_group, safe='')}" if own else prefix


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
