"""What the store's wrapper reports to the status."""

import pytest

from agent.health.status import RuntimeStatus
from agent.runtime.measured_store import MeasuredStore
from connectors.base import Checkpoint, Claim, Fenced, RingWrite
from connectors.errors import TransientError
from connectors.memory import MemoryWindowStore
from connectors.records import Partition

A = Partition("t", 0)


class UnreachableStore(MemoryWindowStore):
    async def verify(self, claim: Claim) -> None:
        raise TransientError("no answer")


async def test_a_store_that_does_not_answer_is_reported_and_the_error_is_raised() -> None:
    status = RuntimeStatus()
    store = MeasuredStore(UnreachableStore(), status)
    claim = await store.claim(A)
    assert status.store_reachable is True
    with pytest.raises(TransientError):
        await store.verify(claim)
    assert status.store_reachable is False


async def test_a_probe_of_the_store_raises_nothing() -> None:
    status = RuntimeStatus()
    store = MeasuredStore(UnreachableStore(), status)
    await store.probe(await store.claim(A))
    assert status.store_reachable is False


async def test_a_rejected_claim_is_counted_and_the_store_counts_as_reachable() -> None:
    status = RuntimeStatus()
    store = MeasuredStore(MemoryWindowStore(), status)
    old = await store.claim(A)
    await store.claim(A)
    with pytest.raises(Fenced):
        await store.verify(old)
    assert (status.rejected_claims, status.store_reachable) == (1, True)
    await store.probe(old)
    assert status.rejected_claims == 1


async def test_the_bytes_of_a_checkpoint_are_its_pieces_and_its_header() -> None:
    status = RuntimeStatus()
    store = MeasuredStore(MemoryWindowStore(), status)
    write = RingWrite("pump", 4, ((0, b"1234"),))
    assert await store.save(await store.claim(A), "layout", Checkpoint([write], b"head!", ["pump"])) == []
    assert status.checkpoint_bytes == 9
