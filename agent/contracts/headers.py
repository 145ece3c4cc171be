"""The Kafka headers of each topic. Values are UTF-8 text. Pure."""

from typing import Literal

from agent.contracts.base import Contract, Timestamp, described


class EventHeaders(Contract):
    """CloudEvents 1.0 in Kafka's binary mode: attributes with the prefix `ce_`, the data in the value."""

    ce_specversion: Literal["1.0"] = described("Version of CloudEvents.")
    ce_id: str = described("Same for the same event, however often it is sent: de-duplicate by it.", min_length=1)
    ce_source: str = described("/anchormoe-agent/ and the namespace of the installation.", min_length=1)
    ce_type: str = described("`anchormoe.` and the data's `type`.", pattern=r"^anchormoe\.")
    ce_subject: str = described("The asset.", min_length=1)
    ce_time: Timestamp = described("Event time: the end of the window, or of the gap. Not the time of sending.")
    ce_dataschema: str = described("Name of the schema of the data, with its main version.", min_length=1)
    content_type: Literal["application/json"] = described("Of the value.", alias="content-type")


class StateHeaders(Contract):
    """Headers of the last states."""

    content_type: Literal["application/json"] = described("Of the value.", alias="content-type")


class DeadLetterHeaders(Contract):
    """Added to a refused record's own headers, which stay. If a record was refused twice, the last of a name counts."""

    dl_reason: str = described("Why it was refused, one word for counting.", min_length=1)
    dl_detail: str = described("Why, for people.")
    dl_field: str = described("The field that was wrong; empty where it was no field.")
    dl_exception: str = described("Class of the error.")
    dl_topic: str = described("Topic the record came from.", min_length=1)
    dl_partition: str = described("Partition it came from.", pattern=r"^\d+$")
    dl_offset: str = described("Its offset there.", pattern=r"^\d+$")
    dl_timestamp_ms: str = described("The record's own Kafka timestamp, epoch.", unit="ms", pattern=r"^-?\d+$")
    dl_version: str = described("Version of the agent that refused it.", min_length=1)
