"""The open streams: twice a second what changed is encoded once, and every client gets what it does not have yet."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import BaseModel

from agent.page.api import Heartbeat
from agent.page.signals import samples_since
from agent.page.state import PageState

BEAT_S = 0.5
HEARTBEAT_S = 5.0
_MAX_HEADS = 100
_RETRY_MS = 2_000


class TooManyStreams(Exception):
    """A session, or all of them together, have as many streams as they may have."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    per_session: int = 4
    total: int = 100


@dataclass(slots=True, eq=False)
class Client:
    """`seq` is the number of the last change it was sent. `samples_to` is the index behind the last sent sample.

    `allowed` is asked before every heartbeat: whoever logged out or was removed must not go on watching.
    """

    session: str
    seq: int
    asset: str | None = None
    allowed: Callable[[], bool] = lambda: True
    samples_to: int | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)


def encode(model: BaseModel) -> bytes:
    """Without warnings: what was checked when it came in is not checked again."""
    return model.model_dump_json(by_alias=True, warnings=False).encode()


def message(event: str, data: bytes, seq: int | None = None) -> bytes:
    """One server-sent event; JSON has no line break."""
    id = b"" if seq is None else b"id: %d\n" % seq
    return b"event: %s\n%sdata: %s\n\n" % (event.encode(), id, data)


class Hub:
    """`run` is the one task that looks for changes; it never waits for a client."""

    def __init__(
        self, state: PageState, limits: StreamLimits | None = None, drain: Callable[[], None] = lambda: None
    ) -> None:
        """`drain` is called before every beat: what a feed has noted becomes visible."""
        self._state, self._limits, self._drain = state, limits or StreamLimits(), drain
        self._clients: set[Client] = set()
        self._deltas: dict[int, bytes] = {}
        self._stopping = False

    def __len__(self) -> int:
        return len(self._clients)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(BEAT_S)
            self.beat()

    def beat(self) -> None:
        state = self._state
        self._drain()
        for asset in {client.asset for client in self._clients if client.asset is not None}:
            self._look_at(asset)
        fresh = state.fleet.seq + 1
        newest = max(
            state.alarms_changed, state.link_changed, *(one[-1][0] for one in (state.heads, state.audit) if one), 0
        )
        state.note_trend()
        if state.fleet.advance(force=newest >= fresh):
            self._deltas.clear()
        for client in self._clients:
            client.wake.set()

    def stop(self) -> None:
        """Every stream ends with its next message."""
        self._stopping = True
        for client in self._clients:
            client.wake.set()

    def connect(
        self, session: str, after: int | None, asset: str | None, allowed: Callable[[], bool] = lambda: True
    ) -> Client:
        """Raises TooManyStreams."""
        own = sum(client.session == session for client in self._clients)
        if own >= self._limits.per_session or len(self._clients) >= self._limits.total:
            raise TooManyStreams
        fleet = self._state.fleet
        client = Client(session, -1 if after is None or not fleet.knows(after) else after, asset, allowed)
        self._clients.add(client)
        return client

    def disconnect(self, client: Client) -> None:
        self._clients.discard(client)

    async def stream(self, client: Client, keep_open: Callable[[], None]) -> AsyncIterator[bytes]:
        """`keep_open` is called whenever something could be written."""
        loop = asyncio.get_running_loop()
        try:
            yield b"retry: %d\n\n%s" % (_RETRY_MS, self._heartbeat())
            if client.seq < 0:
                client.seq = self._state.fleet.seq
                yield message("reset", orjson.dumps({"reason": "fetch the fleet again"}), client.seq)
            next_heartbeat_s, link = loop.time() + HEARTBEAT_S, self._state.link_changed
            while not self._stopping:
                keep_open()
                await self._wait(client, next_heartbeat_s - loop.time())
                due = loop.time() >= next_heartbeat_s or link != self._state.link_changed
                if due and not client.allowed():
                    yield message("bye", orjson.dumps({"reason": "the session has ended"}))
                    return
                parts = list(self._news(client))
                if due:
                    next_heartbeat_s, link = loop.time() + HEARTBEAT_S, self._state.link_changed
                    parts.append(self._heartbeat())
                if parts:
                    yield b"".join(parts)
            yield message("bye", orjson.dumps({"reason": "the server stops"}))
        finally:
            self.disconnect(client)

    async def _wait(self, client: Client, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await client.wake.wait()
        except TimeoutError:
            return
        client.wake.clear()

    def _news(self, client: Client) -> Iterator[bytes]:
        state, after = self._state, client.seq
        seq = state.fleet.seq
        if seq > after:
            if b := self._delta(after):
                yield b
            if heads := [head.model_dump() for number, head in state.heads if after < number <= seq]:
                yield message("e", orjson.dumps(heads[-_MAX_HEADS:]), seq)
            if after < state.alarms_changed <= seq:
                yield message("a", orjson.dumps({"now_ms": state.clock_ms()}), seq)
            if audit := [record for number, record in state.audit if after < number <= seq]:
                yield message("o", orjson.dumps(audit), seq)
            client.seq = seq
        if client.asset is not None and (samples := self._samples(client, client.asset)):
            yield samples

    def _delta(self, after: int) -> bytes:
        """Clients that keep up have the same number, so that most share one encoding."""
        found = self._deltas.get(after)
        if found is None:
            delta = self._state.fleet.delta(after, self._state.clock_ms())
            found = self._deltas[after] = message("d", encode(delta), delta.seq) if delta.rows else b""
        return found

    def _samples(self, client: Client, asset: str) -> bytes:
        trace = self._state.traces.get(asset)
        facts = None if trace is None else self._state.groups.get(trace.group)
        if trace is None or facts is None or client.samples_to == trace.end:
            return b""
        first = trace.start if client.samples_to is None else client.samples_to - facts.shape.lateness - 1
        client.samples_to = trace.end
        return message("s", encode(samples_since(facts, asset, trace, first)))

    def _look_at(self, asset: str) -> None:
        recent = self._state.recent(asset)
        if recent is not None:
            self._state.traces.merge(asset, recent)

    def _heartbeat(self) -> bytes:
        state = self._state
        beat: Any = Heartbeat.model_construct(seq=state.fleet.seq, now_ms=state.clock_ms(), feed=state.feed())
        return message("h", encode(beat))
