"""Checkpoints of windows in Redis or Valkey: written by fenced scripts in chunks, the header last."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from connectors.base import Checkpoint, Claim, ClaimLost, Fenced, RingWrite, StoredWindows
from connectors.errors import ConnectorError
from connectors.failpoints import AFTER_RINGS, hit
from connectors.records import Partition
from connectors.redis.keys import claim_key, header_key, ring_key
from connectors.redis.scripts import CLAIM, FENCED, OVERTAKEN, SAVE_HEADER, SAVE_RINGS, UNCLAIMED
from connectors.redis.server import Server, no_retry, run_command
from connectors.redis.window_reader import read_checkpoint

_CHUNK_BYTES = 1_000_000


class RedisWindowStore:
    """Every key has a time to live; rings of silent assets are prolonged when half of it has passed."""

    def __init__(
        self,
        server: Server,
        *,
        prefix: str = "anchormoe",
        ttl_s: float = 7 * 86_400,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server, self._prefix, self._clock = server, prefix, clock
        self._ttl_ms = int(ttl_s * 1000)
        self._client: Any = None
        self._touched: dict[str, float] = {}
        self._writes = 0

    async def start(self) -> None:
        """Connect, and refuse a server that may throw windows away."""
        self._client = self._server.client()
        with no_retry():
            await run_command("cannot reach Redis", self._client.ping())
        try:
            policy = await run_command("cannot read maxmemory-policy", self._client.config_get("maxmemory-policy"))
        except ConnectorError:
            return  # managed servers forbid CONFIG; `validate` warns about it
        found = policy.get("maxmemory-policy", "noeviction")
        if found != "noeviction":
            raise ConnectorError(f"Redis must not evict windows: maxmemory-policy is {found}, not noeviction")

    async def claim(self, partition: Partition) -> Claim:
        token = secrets.token_hex(16)
        script = self._client.eval(CLAIM, 1, claim_key(self._prefix, partition), token, self._ttl_ms)
        epoch = await run_command(f"cannot claim {partition}", script)
        return Claim(partition, int(epoch), token)

    async def verify(self, claim: Claim) -> None:
        asked = self._client.hget(claim_key(self._prefix, claim.partition), "token")
        found = await run_command(f"cannot check the claim of {claim.partition}", asked)
        _require(claim, UNCLAIMED if found is None else FENCED if found.decode() != claim.token else 0)

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        """None also when the last checkpoint got no further than its rings."""
        stored = await read_checkpoint(self._client, self._prefix, claim.partition, layout)
        return None if stored is None else stored.windows

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        """1. rings in chunks, 2. if none had vanished, the header."""
        lost: list[str] = []
        for chunk in _chunks(checkpoint.writes):
            lost += await self._save_rings(claim, layout, chunk)
            hit(AFTER_RINGS)
        return lost or await self._save_header(claim, layout, checkpoint)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _save_rings(self, claim: Claim, layout: str, writes: Sequence[RingWrite]) -> list[str]:
        keys = [ring_key(self._prefix, claim.partition, layout, write.asset) for write in writes]
        arguments: list[Any] = []
        for write in writes:
            arguments += [write.size, len(write.pieces)]
            arguments += [part for piece in write.pieces for part in piece]
        lost = await self._script(
            claim, SAVE_RINGS, [header_key(self._prefix, claim.partition, layout), *keys], arguments
        )
        self._touched.update(dict.fromkeys(keys, self._clock()))
        return [writes[at].asset for at in lost]

    async def _save_header(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> list[str]:
        """Also prolongs rings that were not written for long (an expired one is lost) and lets the forgotten go."""
        now, half_life_s = self._clock(), self._ttl_ms / 2000
        rings = {ring_key(self._prefix, claim.partition, layout, asset): asset for asset in checkpoint.assets}
        old = [key for key in rings if now - self._touched.setdefault(key, now - 2 * half_life_s) > half_life_s]
        gone = [ring_key(self._prefix, claim.partition, layout, asset) for asset in checkpoint.forgotten]
        keys = [header_key(self._prefix, claim.partition, layout), *old, *gone]
        arguments = [checkpoint.header, orjson.dumps(list(checkpoint.assets)), len(gone)]
        vanished = await self._script(claim, SAVE_HEADER, keys, arguments)
        if vanished:
            return [rings[old[int(vanished) - 1]]]
        self._touched.update(dict.fromkeys(old, now))
        for key in gone:
            self._touched.pop(key, None)
        return []

    async def _script(self, claim: Claim, script: str, keys: list[str], arguments: list[Any]) -> Any:
        self._writes += 1
        all_keys = [claim_key(self._prefix, claim.partition), *keys]
        called = self._client.eval(
            script, len(all_keys), *all_keys, claim.token, self._writes, self._ttl_ms, *arguments
        )
        answer = await run_command(f"cannot store the windows of {claim.partition}", called)
        _require(claim, answer)
        return answer


def _require(claim: Claim, answer: Any) -> None:
    if answer == UNCLAIMED:
        raise ClaimLost(f"nobody holds the claim of {claim.partition}")
    if answer == FENCED:
        raise Fenced(f"{claim.partition} has another owner")
    if answer == OVERTAKEN:
        raise ConnectorError(f"a later write of {claim.partition} came first")


def _chunks(writes: Sequence[RingWrite]) -> Iterator[list[RingWrite]]:
    """At most `_CHUNK_BYTES` per script call, at least one ring: a long script would block every other client."""
    chunk: list[RingWrite] = []
    held = 0
    for write in writes:
        size = sum(len(piece) for _, piece in write.pieces)
        if chunk and held + size > _CHUNK_BYTES:
            yield chunk
            chunk, held = [], 0
        chunk.append(write)
        held += size
    if chunk:
        yield chunk
