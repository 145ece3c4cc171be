"""The keys of stored windows. Pure.

    <prefix>:{<topic>:<number>}:claim                    hash: epoch, token
    <prefix>:{<topic>:<number>}:<layout>:header          hash: header, assets (a JSON list), torn (0 or 1), version
    <prefix>:{<topic>:<number>}:<layout>:ring:<asset>    string: raw little-endian float32, slot after slot

The braces are a hash tag: all keys of a partition are in one slot of a Redis Cluster, so one script may use them.
"""

from connectors.records import Partition


def claim_key(prefix: str, partition: Partition) -> str:
    return f"{_partition_prefix(prefix, partition)}:claim"


def header_key(prefix: str, partition: Partition, layout: str) -> str:
    return f"{_partition_prefix(prefix, partition)}:{layout}:header"


def ring_key(prefix: str, partition: Partition, layout: str, asset: str) -> str:
    return f"{_partition_prefix(prefix, partition)}:{layout}:ring:{asset}"


def header_pattern(prefix: str) -> str:
    """Matches every header below the prefix."""
    return f"{prefix}:{{*}}:*:header"


def _partition_prefix(prefix: str, partition: Partition) -> str:
    return f"{prefix}:{{{partition.topic}:{partition.number}}}"
