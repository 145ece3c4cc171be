"""The activations topic: which bundle is active in a group from which window end on. Pure."""

from agent.contracts.base import Contract, Timestamp, contract_field


class ModelActivation(Contract):
    """Windows of the group that end at or after `effective` are classified by the bundle with this digest."""

    group: str = contract_field("The asset group of the configuration.", min_length=1)
    effective_ns: int = contract_field("The first window end for which the bundle is active, epoch.", unit="ns", ge=0)
    digest: str = contract_field("Digest of the bundle.", min_length=1)
    bundle: str | None = contract_field("Its name in the directory of bundles; null: the bundle of the configuration.")
    by: str = contract_field("Who activated it.")
    written_ns: int = contract_field("When it was activated, epoch.", unit="ns", ge=0)
    reason: str = contract_field("Why.")
    effective: Timestamp = contract_field("`effective_ns` as text.")
    written: Timestamp = contract_field("`written_ns` as text.")
