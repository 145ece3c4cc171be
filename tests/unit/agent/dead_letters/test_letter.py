"""Writing dead letters: one list of headers for records and for undelivered events."""

import pytest

from agent.dead_letters import letter
from agent.dead_letters.letter import dead_letter
from agent.runtime.undelivered import undelivered_letter
from connectors.errors import ConnectorError
from connectors.records import EVENTS, Message, Partition, Record
from connectors.webhook import UndeliveredMessage


def names(message: Message) -> list[str]:
    return [name for name, _ in message.headers]


def test_a_record_and_an_undelivered_event_have_the_same_headers() -> None:
    record = dead_letter(Record(7, 1000, b"pump-1", b"{"), Partition("readings", 3), reason="not_json", detail="why")
    event = undelivered_letter(UndeliveredMessage(Message(EVENTS, b"pump-1", b'{"input": {}}'), ConnectorError("404")))
    assert names(record.message) == names(event)
    assert all(name.startswith("dl_") for name in names(event))


def test_the_version_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(_: str) -> str:
        raise AssertionError("looked up for a letter")

    monkeypatch.setattr(letter, "version", look_up)
    made = dead_letter(Record(7, 1000, None, b"{"), Partition("readings", 3), reason="not_json", detail="why")
    assert dict(made.message.headers)["dl_version"]
