"""Partitions in the client's words, and which one a key gets, as Kafka's own producers choose it. Pure."""

from collections import Counter
from collections.abc import Iterable

from aiokafka import TopicPartition
from aiokafka.partitioner import murmur2

from connectors.records import Partition

_POSITIVE = 0x7FFFFFFF


def as_topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.number)


def partition_of(key: bytes, partitions: int) -> int:
    return int(murmur2(key) & _POSITIVE) % partitions


def most_in_one(keys: Iterable[bytes], partitions: int) -> int:
    """How many keys the fullest partition has."""
    return max(Counter(partition_of(key, partitions) for key in keys).values(), default=0)
