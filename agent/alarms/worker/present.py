"""Present alarms that a frozen worker has set back, found after every recovery.

A worker that wakes after it was replaced may still publish what it was about to. Transitions are equal by id, rows of
the table carry their input's offset; but of the present alarms the last message counts, and that is then an old one.
"""

from collections.abc import Iterable, Iterator, Mapping

import orjson

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import Catalogue
from agent.alarms.messages import alarm_message
from connectors.kafka.bounded import read_records
from connectors.kafka.cluster import Cluster
from connectors.records import Message

LastValues = Mapping[bytes | None, bytes | None]


async def last_values(cluster: Cluster, topic: str) -> LastValues:
    """What a reader of the compacted topic holds for the present. Raises ConnectorError."""
    return {record.key: record.value async for record in read_records(cluster, topic)}


def set_back(console: str, catalogue: Catalogue, alarms: Iterable[Alarm], shown: LastValues) -> Iterator[Message]:
    """The alarms of a console that were published and are shown otherwise, to be published again."""
    for alarm in alarms:
        message = alarm_message(console, catalogue, alarm)
        last = shown.get(message.key, message.value)
        if last != message.value and (alarm.active or _content(last) != _content(message.value)):
            yield message


def _content(value: bytes | None) -> object:
    """Without the strongest event: before an alarm is active, the console notes it and publishes nothing."""
    try:
        data = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return value
    return {**data, "strongest": None} if isinstance(data, dict) else value
