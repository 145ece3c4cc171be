"""A window store that reports to the status whether it answers, which calls it rejects and how many bytes it gets."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent.health.status import RuntimeStatus
from connectors.base import Checkpoint, Claim, Fenced, StoredWindows, WindowStore
from connectors.errors import ConnectorError, TransientError
from connectors.records import Partition


class MeasuredStore:
    """Passes every call on and changes nothing."""

    def __init__(self, store: WindowStore, status: RuntimeStatus) -> None:
        self._store, self._status = store, status

    async def start(self) -> None:
        with self._measured():
            await self._store.start()

    async def claim(self, partition: Partition) -> Claim:
        with self._measured():
            return await self._store.claim(partition)

    async def verify(self, claim: Claim) -> None:
        with self._measured():
            await self._store.verify(claim)

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        with self._measured():
            return await self._store.load(claim, layout)

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        with self._measured():
            lost = await self._store.save(claim, layout, checkpoint)
        self._status.checkpoint_bytes += _size(checkpoint)
        return lost

    async def probe(self, claim: Claim) -> None:
        """Note whether the store answers. Whether the claim is still valid does not matter here."""
        try:
            await self._store.verify(claim)
        except Fenced:
            self._status.store_reachable = True
        except (TransientError, ConnectorError):
            self._status.store_reachable = False
        else:
            self._status.store_reachable = True

    async def close(self) -> None:
        await self._store.close()

    @contextmanager
    def _measured(self) -> Iterator[None]:
        try:
            yield
        except TransientError:
            self._status.store_reachable = False
            raise
        except Fenced:
            self._status.store_reachable = True
            self._status.rejected_claims += 1
            raise
        self._status.store_reachable = True


def _size(checkpoint: Checkpoint) -> int:
    pieces = (len(piece) for write in checkpoint.writes for _, piece in write.pieces)
    return len(checkpoint.header) + sum(pieces)
