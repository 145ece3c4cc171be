"""Parses a message of the events topic into a typed event; accepts fields and kinds that were added later. Pure."""

from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from agent.contracts.published import EVENT_MODELS, EventData, OtherEvent
from agent.contracts.version_1 import ExplainedEventV1
from agent.event_types import EVENT_SCHEMA, EVENT_SCHEMA_V1, STATE, TYPE_PREFIX
from connectors.errors import RecordError
from connectors.records import Headers, Partition, RecordLike

NOT_AN_EVENT = "not_an_event"


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """`time` is the event time. `partition` and `offset` are where it was read: store them to resume there."""

    id: str
    type: str
    source: str
    asset: str
    time: datetime
    data: EventData
    partition: Partition
    offset: int
    published_ms: int
    raw: bytes = field(repr=False)
    headers: dict[str, str] = field(repr=False)

    @property
    def state(self) -> str | None:
        """None for technical events."""
        return _text(self.data, "state")

    @property
    def text(self) -> str | None:
        """The sentence for the operator; None for technical events and version 1 of the contract."""
        return _text(self.data, "text")


def parse_event(record: RecordLike, partition: Partition) -> ReceivedEvent:
    """Raises RecordError for a record that is not one of our events."""
    headers = _decode_headers(record.headers)
    try:
        kind = headers["ce_type"].removeprefix(TYPE_PREFIX)
        raw = record.value or b""
        return ReceivedEvent(
            id=headers["ce_id"],
            type=kind,
            source=headers["ce_source"],
            asset=headers["ce_subject"],
            time=datetime.fromisoformat(headers["ce_time"]),
            data=_data(kind, headers.get("ce_dataschema"), raw),
            partition=partition,
            offset=record.offset,
            published_ms=record.timestamp,
            raw=raw,
            headers=headers,
        )
    except KeyError as error:
        raise RecordError(NOT_AN_EVENT, f"header {error} is missing", field=str(error.args[0])) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise RecordError(NOT_AN_EVENT, f"{where or 'data'}: {first['msg']}", field=where or None) from error
    except ValueError as error:
        raise RecordError(NOT_AN_EVENT, f"ce_time: {error}", field="ce_time") from error


def _data(kind: str, schema: str | None, raw: bytes) -> EventData:
    """By the version of the contract that the event names: 1 or 2; of a later one only the common fields are read."""
    if kind == STATE and schema == EVENT_SCHEMA_V1:
        return ExplainedEventV1.model_validate_json(raw, extra="ignore")
    model = EVENT_MODELS.get(kind) if schema in (None, EVENT_SCHEMA, EVENT_SCHEMA_V1) else None
    if model is None:
        return OtherEvent.model_validate_json(raw, extra="allow")
    return model.model_validate_json(raw, extra="ignore")


def _text(data: EventData, name: str) -> str | None:
    """A kind that came later may have anything under this name."""
    value = getattr(data, name, None)
    return value if isinstance(value, str) else None


def _decode_headers(headers: Headers) -> dict[str, str]:
    return {name: value.decode(errors="replace") for name, value in headers or () if value is not None}
