"""A window store that tells the vitals what it sees: whether it answers, who was refused, how many bytes went out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent.health.status import RuntimeStatus
from connectors.base import Checkpoint, Claim, Fenced, StoredWindows, WindowStore
from connectors.errors import ConnectorError, TransientError
from connectors.records import Partition


class MeasuredStore:
    """Passes every call on; changes nothing."""

    def __init__(self, store: WindowStore, vitals: RuntimeStatus) -> None:
        self._store, self._vitals = store, vitals

    async def start(self) -> None:
        with self._noted():
            await self._store.start()

    async def claim(self, partition: Partition) -> Claim:
        with self._noted():
            return await self._store.claim(partition)

    async def verify(self, claim: Claim) -> None:
        with self._noted():
            await self._store.verify(claim)

    async def load(self, claim: Claim, layout: str) -> StoredWindows | None:
        with self._noted():
            return await self._store.load(claim, layout)

    async def save(self, claim: Claim, layout: str, checkpoint: Checkpoint) -> Sequence[str]:
        with self._noted():
            lost = await self._store.save(claim, layout, checkpoint)
        self._vitals.checkpoint_bytes += _size(checkpoint)
        return lost

    async def look(self, claim: Claim) -> None:
        """A sign of life for the vitals. Whose the partition is by now is not the question here."""
        try:
            await self._store.verify(claim)
        except Fenced:
            self._vitals.store_reachable = True
        except (TransientError, ConnectorError):
            self._vitals.store_reachable = False
        else:
            self._vitals.store_reachable = True

    async def close(self) -> None:
        await self._store.close()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except TransientError:
            self._vitals.store_reachable = False
            raise
        except Fenced:
            self._vitals.store_reachable = True
            self._vitals.rejected_claims += 1
            raise
        self._vitals.store_reachable = True


def _size(checkpoint: Checkpoint) -> int:
    pieces = (len(piece) for write in checkpoint.writes for _, piece in write.pieces)
    return len(checkpoint.header) + sum(pieces)
