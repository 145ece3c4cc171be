"""Events that a webhook does not accept become dead letters, are counted, and never stop the agent."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from agent.contracts import DeadLetterHeaders
from agent.dead_letters.stored import PREFIX, LetterPosition, ReplayFilter, StoredDeadLetter, replay_record
from agent.endpoints import make_sink
from agent.errors import SettingsError
from agent.health.counters import Counters
from agent.runtime.undelivered import REFUSED, UNAVAILABLE, UndeliveredEvents, undelivered_letter
from agent.settings import Plant, load_settings
from connectors.decoding import Decoder
from connectors.errors import ConnectorError, TransientError
from connectors.jsonl import read_messages
from connectors.memory import MemorySink
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import DEAD_LETTERS, EVENTS, Message
from connectors.webhook import UndeliveredMessage

DATA = orjson.dumps({"asset": "pump-1", "input": {"topic": "sensors", "partition": 3, "offset": 17}})
EVENT = Message(EVENTS, b"pump-1", DATA, (("ce_id", b"1"), ("ce_time", b"2026-01-01T00:00:01.5Z")))
EVENT_MS = 1_767_225_601_500


def ours(message: Message) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers if name.startswith(PREFIX)}


def test_a_refused_event_keeps_its_bytes_and_says_why_and_what_made_it() -> None:
    letter = undelivered_letter(UndeliveredMessage(EVENT, ConnectorError("alerts:443 answered 400")))
    assert (letter.stream, letter.key, letter.value) == (DEAD_LETTERS, b"pump-1", DATA)
    assert letter.headers[:2] == EVENT.headers
    headers = ours(letter)
    assert (headers["dl_reason"], headers["dl_detail"]) == (REFUSED, "alerts:443 answered 400")
    assert (headers["dl_partition"], headers["dl_offset"]) == ("3", "17")
    assert headers["dl_timestamp_ms"] == str(EVENT_MS)
    DeadLetterHeaders.model_validate(headers)


def test_an_unavailable_receiver_is_another_reason_than_one_that_rejects() -> None:
    letter = undelivered_letter(UndeliveredMessage(EVENT, TransientError("alerts:443: gone")))
    assert ours(letter)["dl_reason"] == UNAVAILABLE


def test_a_refused_event_is_never_sent_back_as_a_sensor_record() -> None:
    message = undelivered_letter(UndeliveredMessage(EVENT, ConnectorError("no")))
    letter = StoredDeadLetter.of(LetterPosition(0, 0), message.key, message.value, message.headers)
    decoder = Decoder([GroupLayout("pumps", (ChannelField("flow", "flow"),), ("pump-*",))], RecordFormat())
    assert "not read by this plant" in str(
        replay_record(letter, decoder, ReplayFilter(["sensors", "webhook"], force=True))
    )


class OneAtATime(MemorySink):
    """Fails when it is written to while a write is under way, as a file sink would."""

    busy = False

    async def write(self, messages: Sequence[Message]) -> None:
        assert not self.busy
        self.busy = True
        await asyncio.sleep(0)
        await super().write(messages)
        self.busy = False


async def test_two_webhooks_share_the_sink_of_dead_letters_one_write_at_a_time() -> None:
    sink, counters = OneAtATime(), Counters()
    await sink.start()
    refusals = UndeliveredEvents(sink, counters)
    refused = [UndeliveredMessage(EVENT, ConnectorError("no")), UndeliveredMessage(EVENT, TransientError("gone"))]
    await asyncio.gather(refusals.keep(refused), refusals.keep(refused[:1]))
    assert len(sink.of(DEAD_LETTERS)) == 3
    assert counters.dead_letters == {REFUSED: 2, UNAVAILABLE: 1}


async def test_a_sink_that_fails_stops_the_write_and_nothing_is_counted() -> None:
    counters = Counters()
    with pytest.raises(ConnectorError):
        await UndeliveredEvents(MemorySink(), counters).keep([UndeliveredMessage(EVENT, ConnectorError("no"))])
    assert counters.dead_letters == {}


@asynccontextmanager
async def answering(status: int) -> AsyncIterator[str]:
    """A receiver that answers every request alike; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def plant(tmp_path: Path, *sinks: dict[str, Any]) -> Plant:
    path = tmp_path / "plant.yaml"
    groups = [{"name": "pumps", "assets": ["pump-1"], "model": {"bundle": "pump"}}]
    source = {"kind": "simulator", "assets": [{"id": "pump-1", "kind": "pump"}]}
    path.write_text(yaml.safe_dump({"namespace": "hall", "source": source, "groups": groups, "sinks": [*sinks]}))
    return load_settings(path, {})


async def write_through(settings: Plant, counters: Counters) -> None:
    sink = make_sink(settings, counters)
    await sink.start()
    await sink.write([EVENT])
    await sink.close()


@pytest.mark.parametrize(("status", "letters"), [(400, 1), (204, 0)])
async def test_what_is_not_accepted_is_in_the_other_sinks(tmp_path: Path, status: int, letters: int) -> None:
    kept, counters = tmp_path / "out", Counters()
    async with answering(status) as url:
        sinks = ({"kind": "webhook", "url": url}, {"kind": "jsonl", "directory": str(kept)})
        await write_through(plant(tmp_path, *sinks), counters)
    assert list(read_messages(kept / "events.jsonl")) == [EVENT]
    found = list(read_messages(kept / "dead-letters.jsonl")) if letters else []
    assert [ours(letter)["dl_reason"] for letter in found] == [REFUSED] * letters
    assert counters.dead_letters[REFUSED] == letters


def test_a_webhook_alone_has_nowhere_to_put_what_is_refused(tmp_path: Path) -> None:
    webhook, kept = {"kind": "webhook", "url": "http://localhost:1/"}, {"kind": "jsonl", "directory": str(tmp_path)}
    both = plant(tmp_path, webhook, kept)
    alone = both.model_copy(update={"sinks": both.sinks[:1]})
    with pytest.raises(SettingsError, match="kafka or jsonl"):
        make_sink(alone, Counters())
