"""Stores checkpoints of windows in Redis or Valkey: fenced scripts write the rings in chunks, then the header."""

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from connectors.base import Checkpoint, Claim, ClaimLost, Fenced, RingWrite, StoredWindows
from connectors.errors import ConnectorError, TransientError
from connectors.failpoints import AFTER_RINGS, hit
from connectors.records import Partition
from connectors.redis.inspection import NO_EVICTION, eviction_policies
from connectors.redis.keys import claim_key, header_key, ring_key
from connectors.redis.scripts import CLAIM, FENCED, OTHER_VERSION, SAVE_HEADER, SAVE_RINGS, UNCLAIMED
from connectors.redis.server import Server, no_retry, run_command
from connectors.redis.window_reader import read_checkpoint

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1_000_000
_SAVES = 3


class _OtherVersion(Exception):
    """What is stored is not what the last acknowledged write has left."""


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
        self._epochs: dict[Partition, int] = {}
        # Of each layout: the version that was loaded or acknowledged last.
        self._versions: dict[tuple[Partition, str], str] = {}
        self._writes = 0

    async def start(self) -> None:
        """Connects, and refuses a server that may evict windows. Raises ConnectorError."""
        self._client = self._server.client()
        with no_retry():
            await run_command("cannot reach Redis", self._client.ping())
        with no_retry():
            policies = await run_command("cannot read maxmemory-policy", eviction_policies(self._client))
        for eviction in policies - {NO_EVICTION, None}:
            raise ConnectorError(f"Redis must not evict windows: maxmemory-policy is {eviction}, not {NO_EVICTION}")
        if None in policies:  # managed servers forbid CONFIG, and an ACL may forbid INFO too
            log.warning(
                "Redis does not show its maxmemory-policy to this login, so it was not checked: "
                "make sure that it is %s, or allow CONFIG GET or INFO",
                NO_EVICTION,
            )

    async def claim(self, partition: Partition) -> Claim:
        token = secrets.token_hex(16)
        arguments = [token, self._ttl_ms, self._epochs.get(partition, 0)]
        command = self._client.eval(CLAIM, 1, claim_key(self._prefix, partition), *arguments)
        epoch = int(await run_command(f"cannot claim {partition}", command))
        self._epochs[partition] = epoch
        self._versions = {place: version for place, version in self._versions.items() if place[0] != partition}
        return Claim(partition, epoch, token)

    async def verify(self, claim: Claim) -> None:
        command = self._client.hmget(claim_key(self._prefix, claim.partition), "token", "epoch")
        token, epoch = await run_command(f"cannot check the claim of {claim.partition}", command)
        if token is None or token.decode() != claim.token:
            _require_claim(claim, UNCLAIMED if token is None or int(epoch or 0) < claim.epoch else FENCED)

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        """None also when the last checkpoint is torn."""
        stored = await read_checkpoint(self._client, self._prefix, claim.partition, layout)
        self._versions[claim.partition, layout] = "" if stored is None else stored.version
        return None if stored is None else stored.windows

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        """1. the rings in chunks  2. the header, unless a ring was lost."""
        for _ in range(_SAVES):
            try:
                return await self._save(claim, layout, checkpoint)
            except _OtherVersion:
                if not checkpoint.is_whole:
                    return list(checkpoint.assets)
        raise TransientError(f"cannot store the windows of {claim.partition}: they change while they are written")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        lost: list[str] = []
        for chunk in _chunks(checkpoint.writes):
            lost += await self._save_rings(claim, layout, chunk)
            hit(AFTER_RINGS)
        return lost or await self._save_header(claim, layout, checkpoint)

    async def _save_rings(self, claim: Claim, layout: str, writes: Sequence[RingWrite]) -> list[str]:
        keys = [ring_key(self._prefix, claim.partition, layout, write.asset) for write in writes]
        arguments: list[Any] = []
        for write in writes:
            arguments += [write.size, len(write.pieces)]
            arguments += [part for piece in write.pieces for part in piece]
        lost = await self._script(claim, layout, SAVE_RINGS, keys, arguments)
        self._touched.update(dict.fromkeys(keys, self._clock()))
        return [writes[at].asset for at in lost]

    async def _save_header(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> list[str]:
        """Also renews rings that were not written for long (an expired one is lost) and deletes forgotten ones."""
        now, half_life_s = self._clock(), self._ttl_ms / 2000
        rings = {ring_key(self._prefix, claim.partition, layout, asset): asset for asset in checkpoint.assets}
        old = [key for key in rings if now - self._touched.setdefault(key, now - 2 * half_life_s) > half_life_s]
        deleted = [ring_key(self._prefix, claim.partition, layout, asset) for asset in checkpoint.forgotten]
        arguments = [checkpoint.header, orjson.dumps(list(checkpoint.assets)), len(deleted)]
        lost = await self._script(claim, layout, SAVE_HEADER, [*old, *deleted], arguments)
        if lost:
            return [rings[old[int(lost) - 1]]]
        self._touched.update(dict.fromkeys(old, now))
        for key in deleted:
            self._touched.pop(key, None)
        return []

    async def _script(self, claim: Claim, layout: str, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """Raises `_OtherVersion`; the next write then builds on the version that is stored."""
        self._writes += 1
        place, version = (claim.partition, layout), f"{claim.token}:{self._writes}"
        header = header_key(self._prefix, claim.partition, layout)
        all_keys = [claim_key(self._prefix, claim.partition), header, *keys]
        named = [claim.token, claim.epoch, self._versions.get(place, ""), version, self._ttl_ms]
        command = self._client.eval(script, len(all_keys), *all_keys, *named, *arguments)
        reply = await run_command(f"cannot store the windows of {claim.partition}", command)
        _require_claim(claim, reply)
        if isinstance(reply, list) and reply[:1] == [OTHER_VERSION]:
            self._versions[place] = reply[1].decode()
            raise _OtherVersion
        self._versions[place] = version
        return reply


def _require_claim(claim: Claim, reply: Any) -> None:
    if reply == UNCLAIMED:
        raise ClaimLost(f"the claim of {claim.partition} is lost")
    if reply == FENCED:
        raise Fenced(f"{claim.partition} has another owner")


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
