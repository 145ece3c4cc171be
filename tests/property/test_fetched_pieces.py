"""What the fetcher keeps of a partition is given once and in order, whatever is paused, moved or taken away."""

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.kafka import lean_records
from tests.support.raw_batches import raw_batch, raw_record

AT = TopicPartition("t", 0)
T0 = 1_700_000_000_000
SIZES = (3, 1, 0, 4, 2)
"""Records per batch. The empty one is what compaction leaves, and stands for two offsets."""
_EMPTY_SPAN = 2
_CONTROL = 0x20


def _log() -> tuple[list[tuple[bytes, int]], list[int], int]:
    """Batches with the offset behind them, markers of transactions in between; offsets of records; the end."""
    parts, offsets, at = list[tuple[bytes, int]](), list[int](), 0
    for size in SIZES:
        span = size or _EMPTY_SPAN
        records = [raw_record(delta, b"k", b"v") for delta in range(size)]
        parts.append((raw_batch(records, timestamp_ms=T0, base_offset=at, last=span - 1), at + span))
        offsets += range(at, at + size)
        marker = [raw_record(0, bytes(4), bytes(6))]
        parts.append((raw_batch(marker, timestamp_ms=T0, base_offset=at + span, attributes=_CONTROL), at + span + 1))
        at += span + 1
    return parts, offsets, at


BATCHES, OFFSETS, END = _log()

verbs = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 5)),
    st.tuples(st.just("seek"), st.integers(0, END)),
    st.tuples(st.sampled_from(["pause", "resume", "rebalance"]), st.none()),
)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    before = fetcher.PartitionRecords
    lean_records.install()
    yield
    fetcher.PartitionRecords = before


class Consumer:
    """A fetcher's part for one partition: it fetches where it holds nothing, and gives what it holds."""

    def __init__(self) -> None:
        self._subscriptions = SubscriptionState()
        self._held: Any = None
        self.rebalance()

    @property
    def _state(self) -> Any:
        return self._subscriptions.subscription.assignment.state_value(AT)

    def rebalance(self) -> None:
        """The partition is taken away and given back, to be read from its beginning as after a lost commit."""
        if self._subscriptions.subscription is not None:
            self._subscriptions.unsubscribe()
        self._subscriptions.assign_from_user([AT])
        self._state.reset_to(0)
        self.next = 0

    def pause(self) -> None:
        self._state.pause()

    def resume(self) -> None:
        if self._state.paused:
            self._state.resume()

    def seek(self, offset: int) -> None:
        self._state.seek(offset)
        self.next = offset

    def take(self, count: int) -> list[int]:
        if self._held is None:
            self._held = self._fetch()
        records = self._held.getall(count)
        if not self._held.has_more():
            self._held = None
        return [record.offset for record in records]

    def _fetch(self) -> Any:
        at, assignment = self._state.position, self._subscriptions.subscription.assignment
        raw = b"".join(batch for batch, behind in BATCHES if behind > at)
        walk = fetcher.PartitionRecords(
            AT, MemoryRecords(raw), [], at, lean_records.as_decoded, None, True, fetcher.READ_COMMITTED
        )
        return fetcher.FetchResult(AT, assignment=assignment, partition_records=walk, backoff=0)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(verbs, max_size=25))
async def test_every_record_comes_once_and_in_order(steps: list[tuple[str, int | None]]) -> None:
    consumer, paused = Consumer(), False
    for verb, number in [*steps, ("resume", None), *[("take", 5)] * len(OFFSETS)]:
        if number is None:
            getattr(consumer, verb)()
            paused = verb == "pause"
        elif verb == "seek":
            consumer.seek(number)
        else:
            expected = [offset for offset in OFFSETS if offset >= consumer.next][:number]
            taken = consumer.take(number)
            assert taken == expected[: 0 if paused else len(taken)]
            consumer.next = taken[-1] + 1 if taken else consumer.next
    assert consumer.next > OFFSETS[-1]
