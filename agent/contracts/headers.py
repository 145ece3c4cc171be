"""The Kafka headers of each topic; values are UTF-8 text. Pure."""

from typing import Literal

from agent.contracts.base import Contract, Timestamp, contract_field


class EventHeaders(Contract):
    """CloudEvents 1.0 in Kafka's binary mode: attributes with the prefix `ce_`, the data in the value."""

    ce_specversion: Literal["1.0"] = contract_field("Version of CloudEvents.")
    ce_id: str = contract_field(
        "The same for the same event, however often it is sent: de-duplicate by it.", min_length=1
    )
    ce_source: str = contract_field("`/anchormoe-agent/` and the namespace of the installation.", min_length=1)
    ce_type: str = contract_field("`anchormoe.` and the data's `type`.", pattern=r"^anchormoe\.")
    ce_subject: str = contract_field("The asset.", min_length=1)
    ce_time: Timestamp = contract_field("Event time: the end of the window, or of the gap. Not the time of sending.")
    ce_dataschema: str = contract_field("URN of the schema of the data, with its major version.", min_length=1)
    content_type: Literal["application/json"] = contract_field("Of the value.", alias="content-type")


class StateHeaders(Contract):
    """Headers of the last states."""

    content_type: Literal["application/json"] = contract_field("Of the value.", alias="content-type")


class DeadLetterHeaders(Contract):
    """Added to the record's own headers, which stay. Of several headers with one name the last counts."""

    dl_reason: str = contract_field("Reason, as one word for counting.", min_length=1)
    dl_detail: str = contract_field("Reason, for people.")
    dl_field: str = contract_field("The field that was wrong; empty when it was not a single field.")
    dl_exception: str = contract_field("Class of the error.")
    dl_topic: str = contract_field("Topic the record came from.", min_length=1)
    dl_partition: str = contract_field("Partition it came from.", pattern=r"^\d+$")
    dl_offset: str = contract_field("Offset in that partition.", pattern=r"^\d+$")
    dl_timestamp_ms: str = contract_field("The record's own Kafka timestamp, epoch.", unit="ms", pattern=r"^-?\d+$")
    dl_version: str = contract_field("Version of the agent that wrote this.", min_length=1)
