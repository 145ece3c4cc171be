"""The contract of sinks. A new sink is tested by a subclass of `SinkContract` with a `world` fixture."""

from typing import Protocol

import pytest

from connectors.base import Sink
from connectors.errors import ConnectorError
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Message


class World(Protocol):
    """A destination that is empty at first."""

    def open(self) -> Sink: ...
    async def stored(self, stream: str) -> list[Message]:
        """What a reader of that stream finds, in order."""
        ...


def event(number: int, asset: bytes = b"pump-1") -> Message:
    return Message(EVENTS, asset, b'{"number": %d}' % number, (("ce_id", b"%d" % number), ("ce_type", b"state")))


class SinkContract:
    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError

    async def test_messages_are_stored_in_order(self, world: World) -> None:
        sink = world.open()
        await sink.start()
        await sink.write([event(0), event(1)])
        await sink.write([event(2)])
        assert await world.stored(EVENTS) == [event(0), event(1), event(2)]
        await sink.close()

    async def test_streams_do_not_mix(self, world: World) -> None:
        sink = world.open()
        await sink.start()
        state = Message(STATES, b"pump-1", b'{"state":"normal"}')
        await sink.write([event(0), state, event(1)])
        assert await world.stored(EVENTS) == [event(0), event(1)]
        assert await world.stored(STATES) == [state]
        await sink.close()

    @pytest.mark.parametrize("value", [b"\x00\xff\nraw", b'{"a":\n1}', b"null", b"", b"not json", None])
    async def test_any_bytes_are_stored_unchanged(self, world: World, value: bytes | None) -> None:
        sink = world.open()
        await sink.start()
        letter = Message(DEAD_LETTERS, b"\xffkey", value, (("reason", b"not_json"), ("original", b"\xfe\x00")))
        await sink.write([letter])
        assert await world.stored(DEAD_LETTERS) == [letter]
        await sink.close()

    async def test_an_empty_write_is_fine(self, world: World) -> None:
        sink = world.open()
        await sink.start()
        await sink.write([])
        assert await world.stored(EVENTS) == []
        await sink.close()

    async def test_a_second_sink_appends_to_what_the_first_wrote(self, world: World) -> None:
        for number in range(2):
            sink = world.open()
            await sink.start()
            await sink.write([event(number)])
            await sink.close()
        assert await world.stored(EVENTS) == [event(0), event(1)]

    async def test_a_closed_sink_refuses_to_write(self, world: World) -> None:
        sink = world.open()
        await sink.start()
        await sink.close()
        with pytest.raises(ConnectorError):
            await sink.write([event(0)])
