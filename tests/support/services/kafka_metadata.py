"""Requests that aiokafka's admin client lacks: topic ids, in-sync replicas, the active controller."""

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

_NULL = -1  # of a struct that may be absent
_UNKNOWN_TOPIC = 3
_MOST_PARTITIONS = 2000


@dataclass(frozen=True, slots=True)
class Partition:
    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...]  # left the in-sync replicas while these were too few; hold all committed records


@dataclass(frozen=True, slots=True)
class Topic:
    id: str  # as Kafka's own tools print it
    partitions: dict[int, Partition]


async def living_brokers(address: str) -> set[int]:
    """The brokers that the one at `host:port` lists as alive."""
    client = AIOKafkaClient(bootstrap_servers=address, request_timeout_ms=5000)
    try:
        await client.bootstrap()
        return {broker.nodeId for broker in client.cluster.brokers()}
    finally:
        await client.close()


async def describe_topic(address: str, node: int, name: str) -> Topic | None:
    """The topic as this broker knows it, perhaps outdated; None when it does not know it."""
    [(error, _, topic_id, _, partitions, *_)] = (await _send(address, node, _DescribeTopic(name))).topics
    if error == _UNKNOWN_TOPIC:
        return None
    return Topic(topic_id, {index: _partition(*fields) for _, index, *fields in partitions})


async def active_controller(address: str, node: int) -> int | None:
    """The leader of the metadata quorum; None while there is none.

    Since KRaft, the controller in a metadata response is a broker chosen at random.
    """
    response = await _send(address, node, _DescribeQuorum())
    if response.error_code:
        return None
    [(_, [(_, error, leader, *_)], _)] = response.topics
    return None if error or leader < 0 else leader


def _partition(leader: int, epoch: int, replicas: list[int], in_sync: list[int], *rest: list[int] | None) -> Partition:
    return Partition(leader, epoch, tuple(replicas), tuple(in_sync), tuple(rest[0] or ()))


async def _send(address: str, node: int, request: Any) -> Any:
    client = AIOKafkaClient(bootstrap_servers=address, request_timeout_ms=5000)
    try:
        await client.bootstrap()
        return await client.send(node, request)
    finally:
        await client.close()


class _Uuid(AbstractType[str]):
    @classmethod
    def encode(cls, value: str) -> bytes:
        raise NotImplementedError

    @classmethod
    def decode(cls, data: BytesIO) -> str:
        return urlsafe_b64encode(data.read(16)).decode().rstrip("=")


class _TopicDescription(Response):
    API_KEY = 75
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition_index", Int32),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("replica_nodes", CompactArray(Int32)),
                        ("isr_nodes", CompactArray(Int32)),
                        ("eligible_leader_replicas", CompactArray(Int32)),
                        ("last_known_elr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("topic_authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("next_cursor", Int8),  # always null: one answer holds every partition of a test's topic
        ("tags", TaggedFields),
    )


class _DescribeTopicPartitions(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 75
    API_VERSION = 0
    RESPONSE_TYPE = _TopicDescription
    SCHEMA = Schema(
        ("topics", CompactArray(("name", CompactString("utf-8")), ("tags", TaggedFields))),
        ("response_partition_limit", Int32),
        ("cursor", Int8),
        ("tags", TaggedFields),
    )


class _DescribeTopic(Request[_DescribeTopicPartitions]):
    API_KEY = 75

    def __init__(self, name: str) -> None:
        self._name = name

    def build(self, request_struct_class: type[_DescribeTopicPartitions]) -> _DescribeTopicPartitions:
        return request_struct_class([(self._name, {})], _MOST_PARTITIONS, _NULL, {})


_REPLICAS = CompactArray(("replica_id", Int32), ("log_end_offset", Int64), ("tags", TaggedFields))


class _QuorumDescription(Response):
    API_KEY = 55
    API_VERSION = 0
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "topics",
            CompactArray(
                ("topic_name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition_index", Int32),
                        ("error_code", Int16),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("high_watermark", Int64),
                        ("current_voters", _REPLICAS),
                        ("observers", _REPLICAS),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeQuorumStruct(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 55
    API_VERSION = 0
    RESPONSE_TYPE = _QuorumDescription
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_name", CompactString("utf-8")),
                ("partitions", CompactArray(("partition_index", Int32), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeQuorum(Request[_DescribeQuorumStruct]):
    API_KEY = 55

    def build(self, request_struct_class: type[_DescribeQuorumStruct]) -> _DescribeQuorumStruct:
        return request_struct_class([("__cluster_metadata", [(0, {})], {})], {})
