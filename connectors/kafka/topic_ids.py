"""Topic ids and leader epochs, which aiokafka does not give: what tells a log from another under the same name."""

from base64 import urlsafe_b64encode
from io import BytesIO

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from connectors.base import LogIdentity

_NO_ID = bytes(16)


class _Uuid(AbstractType[bytes]):
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


class _MetadataResponse(Response):
    API_KEY = 3
    API_VERSION = 11
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
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
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _MetadataRequest(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 11
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicIdRequest(Request[_MetadataRequest]):
    """Metadata of one topic, in the version that has the topic id (Kafka 2.8). Creates no topic."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_MetadataRequest]) -> _MetadataRequest:
        return request_struct_class([(_NO_ID, self._topic, {})], False, False, {})


def log_identity(response: Response) -> LogIdentity:
    """The id as Kafka's own tools print it; nothing when the topic does not exist or has no id."""
    [(error, _, found, _, partitions, *_)] = response.get_item("topics")
    if error or found == _NO_ID:
        return LogIdentity()
    epochs = {number: epoch for _, number, _, epoch, *_ in partitions if epoch >= 0}
    return LogIdentity(urlsafe_b64encode(found).decode().rstrip("="), epochs)
