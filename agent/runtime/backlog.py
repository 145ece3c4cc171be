"""Polled batches that wait until there is room for the windows which they make due."""

from collections import deque
from collections.abc import Callable, Iterator

from agent.runtime.ingestion import IngestedBatch
from agent.runtime.partitions.owned import OwnedPartition
from connectors.records import Batch

Ingest = Callable[[OwnedPartition, Batch], Iterator[IngestedBatch]]


class Backlog:
    """In order of arrival, ingested piece by piece; a batch of a partition that was lost meanwhile is dropped."""

    def __init__(self, ingest: Ingest, is_owned: Callable[[OwnedPartition], bool]) -> None:
        self._ingest, self._is_owned = ingest, is_owned
        self._waiting: deque[tuple[OwnedPartition, Iterator[IngestedBatch]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, owned: OwnedPartition, batch: Batch) -> None:
        self._waiting.append((owned, self._ingest(owned, batch)))

    def next_piece(self) -> IngestedBatch | None:
        """Ingest the next piece; None when nothing is left. Raises `BreakerTripped`."""
        while self._waiting:
            owned, pieces = self._waiting[0]
            piece = next(pieces, None) if self._is_owned(owned) else None
            if piece is not None:
                return piece
            self._waiting.popleft()
        return None
