"""What aiokafka's admin client does not tell: topic ids, in-sync replicas, the active controller."""

from dataclasses import dataclass
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from connectors.kafka.topic_ids import TopicIdRequest, log_identity


@dataclass(frozen=True, slots=True)
class Partition:
    leader: int  # -1: none
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


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
    response = await _send(address, node, TopicIdRequest(name))
    identity = log_identity(response)
    if identity.id is None:
        return None
    [(_, _, _, _, partitions, *_)] = response.topics
    return Topic(identity.id, {number: _partition(*fields) for _, number, *fields in partitions})


async def active_controller(address: str, node: int) -> int | None:
    """The leader of the metadata quorum; None while there is none.

    Since KRaft, the controller in a metadata response is a broker chosen at random.
    """
    response = await _send(address, node, _DescribeQuorum())
    if response.error_code:
        return None
    [(_, [(_, error, leader, *_)], _)] = response.topics
    return None if error or leader < 0 else leader


def _partition(leader: int, _: int, replicas: list[int], in_sync: list[int], *rest: Any) -> Partition:
    return Partition(leader, tuple(replicas), tuple(in_sync))


async def _send(address: str, node: int, request: Any) -> Any:
    client = AIOKafkaClient(bootstrap_servers=address, request_timeout_ms=5000)
    try:
        await client.bootstrap()
        return await client.send(node, request)
    finally:
        await client.close()


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
