"""What the topic of activations holds: which model speaks from which window end on. Pure."""

from agent.contracts.base import Contract, Timestamp, described


class ModelActivation(Contract):
    """Windows of the group that end at or after `effective` are judged by the bundle with this digest."""

    group: str = described("The asset group of the configuration.", min_length=1)
    effective_ns: int = described("The first window end it holds for, epoch.", unit="ns", ge=0)
    digest: str = described("Digest of the bundle that takes over.", min_length=1)
    bundle: str | None = described("Its place in the directory of bundles; null: the one of the configuration.")
    by: str = described("Who asked for it.")
    written_ns: int = described("When it was asked for, epoch.", unit="ns", ge=0)
    reason: str = described("Why.")
    effective: Timestamp = described("`effective_ns` for people.")
    written: Timestamp = described("`written_ns` for people.")
