"""Messages that do not fit through the producer or the broker, on a real broker: none of them stops a partition."""

from collections import Counter

import orjson
import pytest

from agent.contracts import ExplainedEvent
from agent.dead_letters.letter import dead_letter
from agent.dead_letters.stored import LetterPosition, StoredDeadLetter
from agent.runtime.oversized import shrink_message
from connectors.errors import ConnectorError
from connectors.kafka.admin import configure_topic
from connectors.kafka.bounded import read_batches
from connectors.kafka.cluster import Cluster
from connectors.kafka.sink import Delivery, KafkaSink, OversizePolicy
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Message, Partition, Record
from tests.support.event_samples import samples
from tests.support.event_sums import require_exact_sums
from tests.support.services.kafka import Broker

T0 = 1_700_000_000_000


class World:
    """A sink with three topics, and what was shrunk on the way."""

    def __init__(self, kafka: Broker, topic: str, *, partitions: int = 1) -> None:
        self.kafka, self.shrunk = kafka, Counter[str]()
        self.topics = {stream: f"{topic}-{stream}" for stream in (EVENTS, STATES, DEAD_LETTERS)}
        for name in self.topics.values():
            kafka.create_topic(name, partitions)
        policy = OversizePolicy(shrink_message, lambda stream: self.shrunk.update([stream]))
        self.sink = KafkaSink(Cluster(kafka.bootstrap), Delivery(self.topics), policy)

    async def write(self, *messages: Message) -> None:
        await self.sink.start()
        try:
            await self.sink.write(messages)
        finally:
            await self.sink.close()

    async def letters(self) -> list[StoredDeadLetter]:
        batches = read_batches(Cluster(self.kafka.bootstrap), self.topics[DEAD_LETTERS], timeout_s=60)
        return [
            StoredDeadLetter.of(LetterPosition(0, each.offset), each.key, each.value, each.headers)
            async for batch in batches
            for each in batch.records
        ]


def letter(offset: int, value: bytes | None, key: bytes | None = b"pump", detail: str = "why") -> Message:
    record = Record(offset, T0, key, value, (("h", b"x" * 10),))
    return dead_letter(record, Partition("sensors", 0), reason="not_json", detail=detail, field=detail).message


async def test_dead_letters_always_fit_through_the_producer(kafka: Broker, topic_name: str) -> None:
    world = World(kafka, topic_name)
    await world.write(
        letter(0, b"{"),
        letter(1, b"x" * 1_048_400),
        letter(2, bytes(3_000_000)),
        letter(3, b"x" * 400_000, detail="ü" * 400_000),
        letter(4, None, key=None),
        letter(5, b"{", key=b"k" * 2_000_000),
    )
    letters = await world.letters()
    assert [(each.offset, each.is_pointer) for each in letters] == [
        (0, False),
        (1, True),
        (2, True),
        (3, False),
        (4, False),
        (5, True),
    ]
    assert letters[2].dl_headers["size"] == "3000000"
    assert len(letters[3].dl_headers["detail"].encode()) <= 1024
    assert letters[3].dl_headers["detail"].endswith("ü…")
    assert world.shrunk == {DEAD_LETTERS: 3}


async def test_a_broker_that_takes_less_than_the_setting_gets_pointers_too(kafka: Broker, topic_name: str) -> None:
    world = World(kafka, topic_name)
    await configure_topic(Cluster(kafka.bootstrap), world.topics[DEAD_LETTERS], {"max.message.bytes": "60000"})
    small = [letter(number, b"x" * 20_000) for number in range(10)]
    await world.write(*small, letter(10, b"x" * 200_000), letter(11, b"x" * 100_000), letter(12, b"{"))
    letters = await world.letters()
    assert [each.offset for each in letters] == list(range(13))
    assert [each.offset for each in letters if each.is_pointer] == [10, 11]


async def test_an_event_that_does_not_fit_is_published_without_its_evidence(kafka: Broker, topic_name: str) -> None:
    world = World(kafka, topic_name)
    data = next(one.event.data for one in samples().outgoing if one.event.data.get("evidence"))
    long = [span | {"note": "x" * 100} for span in data["evidence"]["spans"]] * 5_000
    value = orjson.dumps(data | {"evidence": data["evidence"] | {"spans": long}})
    await world.write(Message(EVENTS, b"pump", value, (("ce_id", b"1"),)), Message(EVENTS, b"pump", b'{"n":1}'))
    batches = read_batches(Cluster(kafka.bootstrap), world.topics[EVENTS], timeout_s=60)
    [cut, whole] = [record async for batch in batches for record in batch.records]
    left = orjson.loads(cut.value or b"")
    assert (left["evidence"]["spans"], left["evidence"]["channels"], left["why_not"]) == ([], [], None)
    assert (left["state"], left["text"], left["classes"]) == (data["state"], data["text"], data["classes"])
    ExplainedEvent.model_validate_json(cut.value or b"")
    require_exact_sums(left)
    assert dict(cut.headers) == {"ce_id": b"1", "anchormoe_cut": b"evidence.spans"}
    assert whole.value == b'{"n":1}'


async def test_without_a_way_to_shrink_a_message_the_error_names_the_remedy(kafka: Broker, topic_name: str) -> None:
    world = World(kafka, topic_name)
    world.sink = KafkaSink(Cluster(kafka.bootstrap), Delivery(world.topics))
    with pytest.raises(ConnectorError, match="raise max_message_bytes"):
        await world.write(Message(EVENTS, b"pump", b"x" * 2_000_000))
