"""What it costs a checkpoint to name its version and to carry checksums: `python -m tests.bench.checkpoint_check`."""

import asyncio
import time
import zlib

import numpy as np

from connectors.base import Checkpoint, RingWrite
from connectors.records import Partition
from connectors.redis.scripts import SAVE_HEADER, SAVE_RINGS
from connectors.redis.server import Server
from connectors.redis.window_store import RedisWindowStore
from tests.support.services.redis import RedisServer

ASSETS, RING_BYTES, PIECE_BYTES, ROUNDS = 1000, 4096, 200, 30
VERSION_LINES = """local stored = redis.call('HGET', KEYS[2], 'version') or ''
if stored ~= ARGV[3] and stored ~= ARGV[4] then return {-3, stored} end
"""


async def save_s(url: str, *, checked: bool) -> float:
    """Median seconds of one checkpoint of all assets."""
    store = RedisWindowStore(Server(url), prefix="checked" if checked else "bare")
    await store.start()
    plain = store._client.eval

    async def bare(script: str, *arguments: object) -> object:
        assert script not in (SAVE_RINGS, SAVE_HEADER) or VERSION_LINES in script
        return await plain(script.replace(VERSION_LINES, ""), *arguments)

    if not checked:
        store._client.eval = bare
    claim = await store.claim(Partition("bench", 0))
    names = [f"asset-{number}" for number in range(ASSETS)]
    whole = [RingWrite(name, RING_BYTES, ((0, bytes(RING_BYTES)),)) for name in names]
    await store.save(claim, "layout", Checkpoint(whole, b"head", names))
    patches = [RingWrite(name, RING_BYTES, ((100, bytes(PIECE_BYTES)),)) for name in names]
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await store.save(claim, "layout", Checkpoint(patches, b"head", names))
        taken.append(time.perf_counter() - began)
    await store.close()
    return float(np.median(taken))


def checksums_s() -> float:
    rings = np.zeros((ASSETS, RING_BYTES // 4), np.float32)
    began = time.perf_counter()
    for ring in rings:
        zlib.crc32(ring.tobytes())
    return time.perf_counter() - began


def main() -> None:
    server = RedisServer("redis")
    server.start()
    try:
        bare, checked = (asyncio.run(save_s(server.url, checked=each)) for each in (False, True))
    finally:
        server.close()
    sums = checksums_s()
    print(
        f"{ASSETS} assets: without {bare * 1e3:.1f} ms, with the version {checked * 1e3:.1f} ms ({checked / bare:.2f}x)"
    )
    print(f"checksums of all rings: {sums * 1e3:.1f} ms ({sums / bare:.2f} of a checkpoint)")


if __name__ == "__main__":
    main()
