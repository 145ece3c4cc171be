"""Stores checkpoints of windows in Redis or Valkey: fenced scripts write the rings in chunks, then the header."""

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
from connectors.redis.scripts import CLAIM, FENCED, SAVE_HEADER, SAVE_RINGS, STALE, UNCLAIMED
from connectors.redis.server import Server, no_retry, run_command
from connectors.redis.window_reader import read_checkpoint

_CHUNK_BYTES = 1_000_000


class RedisWindowStore:
    """Every key has a time to live; that of rings which are not written is renewed when half of it has passed."""

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
        """Connects, and refuses a server that may evict windows. Raises ConnectorError."""
        self._client = self._server.client()
        with no_retry():
            await run_command("cannot reach Redis", self._client.ping())
        try:
            policy = await run_command("cannot read maxmemory-policy", self._client.config_get("maxmemory-policy"))
        except ConnectorError:
            return  # managed servers forbid CONFIG; `validate` warns about it
        eviction = policy.get("maxmemory-policy", "noeviction")
        if eviction != "noeviction":
            raise ConnectorError(f"Redis must not evict windows: maxmemory-policy is {eviction}, not noeviction")

    async def claim(self, partition: Partition) -> Claim:
        token = secrets.token_hex(16)
        command = self._client.eval(CLAIM, 1, claim_key(self._prefix, partition), token, self._ttl_ms)
        epoch = await run_command(f"cannot claim {partition}", command)
        return Claim(partition, int(epoch), token)

    async def verify(self, claim: Claim) -> None:
        command = self._client.hget(claim_key(self._prefix, claim.partition), "token")
        token = await run_command(f"cannot check the claim of {claim.partition}", command)
        _require_claim(claim, UNCLAIMED if token is None else FENCED if token.decode() != claim.token else 0)

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        """None also when the last checkpoint is torn."""
        stored = await read_checkpoint(self._client, self._prefix, claim.partition, layout)
        return None if stored is None else stored.windows

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        """1. the rings in chunks  2. the header, unless a ring was lost."""
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
        """Also renews rings that were not written for long (an expired one is lost) and deletes forgotten ones."""
        now, half_life_s = self._clock(), self._ttl_ms / 2000
        rings = {ring_key(self._prefix, claim.partition, layout, asset): asset for asset in checkpoint.assets}
        old = [key for key in rings if now - self._touched.setdefault(key, now - 2 * half_life_s) > half_life_s]
        deleted = [ring_key(self._prefix, claim.partition, layout, asset) for asset in checkpoint.forgotten]
        keys = [header_key(self._prefix, claim.partition, layout), *old, *deleted]
        arguments = [checkpoint.header, orjson.dumps(list(checkpoint.assets)), len(deleted)]
        lost = await self._script(claim, SAVE_HEADER, keys, arguments)
        if lost:
            return [rings[old[int(lost) - 1]]]
        self._touched.update(dict.fromkeys(old, now))
        for key in deleted:
            self._touched.pop(key, None)
        return []

    async def _script(self, claim: Claim, script: str, keys: list[str], arguments: list[Any]) -> Any:
        self._writes += 1
        all_keys = [claim_key(self._prefix, claim.partition), *keys]
        command = self._client.eval(
            script, len(all_keys), *all_keys, claim.token, self._writes, self._ttl_ms, *arguments
        )
        reply = await run_command(f"cannot store the windows of {claim.partition}", command)
        _require_claim(claim, reply)
        return reply


def _require_claim(claim: Claim, reply: Any) -> None:
    if reply == UNCLAIMED:
        raise ClaimLost(f"no owner holds {claim.partition}")
    if reply == FENCED:
        raise Fenced(f"{claim.partition} has another owner")
    if reply == STALE:
        raise ConnectorError(f"stale write to {claim.partition} rejected: a newer one was applied")


def _chunks(writes: Sequence[RingWrite]) -> Iterator[list[RingWrite]]:
    """At most `_CHUNK_BYTES` per script call, but at least one ring: a long script blocks every other client."""
    chunk: list[RingWrite] = []
    chunk_bytes = 0
    for write in writes:
        size = sum(len(piece) for _, piece in write.pieces)
        if chunk and chunk_bytes + size > _CHUNK_BYTES:
            yield chunk
            chunk, chunk_bytes = [], 0
        chunk.append(write)
        chunk_bytes += size
    if chunk:
        yield chunk
