"""Receivers that must be told: every present alarm is posted until the receiver accepts it.

The place in the `alarms` topic is committed only behind what was accepted, so a killed worker forgets nothing. The
topic is read from its beginning to know what is firing; only what is new to the group is told at once.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
import structlog
from aiokafka import TopicPartition

from agent.alarms.alert_payloads import Format, body, is_firing, signature, was_raised
from agent.alarms.counters import AlarmCounters
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.records import Partition, RecordLike

log = structlog.get_logger()
_EVERYTHING = 1 << 62
_POLL_S = 0.5
_MOST_PENDING = 10_000
_WORTH_ANOTHER_TRY = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where to post, and how patiently. Pauses in seconds, doubling from the first to the longest."""

    name: str
    url: str
    format: Format = "generic"
    priorities: frozenset[str] = frozenset({"low", "medium", "high"})
    token: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    timeout_s: float = 5.0
    attempts: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    repeat_s: float = 60.0
    max_alerts: int = 100

    def pause_s(self, tried: int) -> float:
        return min(self.first_pause_s * float(2**tried), self.longest_pause_s)


@dataclass(frozen=True, slots=True)
class ToldReceivers:
    """A present alarm and its place in the topic."""

    partition: Partition
    offset: int
    alarm: Mapping[str, Any]


class Refused(Exception):
    """The receiver does not want this, and will not want it later."""


class AlarmPost:
    """One receiver over HTTP: bounded tries, then it is left for later."""

    def __init__(self, receiver: Receiver, namespace: str, tally: AlarmCounters) -> None:
        self._to, self._namespace, self._tally = receiver, namespace, tally
        self._session: aiohttp.ClientSession | None = None

    async def deliver(self, alarms: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the receiver has dealt with it; what it refuses for good is counted and logged, not repeated."""
        payload = body(self._to.format, alarms, self._namespace)
        for tried in range(self._to.attempts):
            try:
                await self._post(payload)
                self._count("accepted")
                return True
            except Refused as refused:
                self._count("refused")
                log.error("webhook refused", receiver=self._to.name, reason=str(refused), alarms=len(alarms))
                return True
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                self._count("failed")
                log.warning("webhook failed", receiver=self._to.name, reason=str(error) or type(error).__name__)
                await asyncio.sleep(self._to.pause_s(tried))
        return False

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(self, payload: bytes) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._to.timeout_s))
        async with self._session.post(self._to.url, data=payload, headers=self._headers(payload)) as answer:
            wrong = answer.status
            if 400 <= wrong < 500 and wrong not in _WORTH_ANOTHER_TRY:
                raise Refused(f"{wrong} {(await answer.text())[:200]}")
            answer.raise_for_status()

    def _headers(self, payload: bytes) -> dict[str, str]:
        stamp = str(int(time.time()))
        headers = {"Content-Type": "application/json", "X-Anchormoe-Timestamp": stamp}
        if self._to.secret is not None:
            headers["X-Anchormoe-Signature"] = signature(self._to.secret, stamp, payload)
        if self._to.token is not None:
            headers["Authorization"] = f"Bearer {self._to.token}"
        return headers

    def _count(self, outcome: str) -> None:
        self._tally.webhooks[self._to.name, outcome] += 1


class _Place(TopicReader):
    """Remembers which partitions were taken away, whose alarms are then somebody else's to repeat."""

    def __init__(self, cluster: Cluster, reading: ReadOptions, gone: Callable[[Partition], None]) -> None:
        super().__init__(cluster, reading)
        self._gone = gone

    async def give(self, partitions: Collection[TopicPartition]) -> None:
        await super().give(partitions)
        for at in partitions:
            self._gone(Partition(at.topic, at.partition))


class WebhookSender:
    """Reads the present alarms and keeps one receiver informed."""

    def __init__(
        self, cluster: Cluster, topic: str, group: str, receiver: Receiver, post: AlarmPost, tally: AlarmCounters
    ) -> None:
        reading = ReadOptions(topic, group=f"{group}-{receiver.name}", from_beginning=True, look_back=_EVERYTHING)
        self._reader = _Place(cluster, reading, self._forget)
        self._to, self._post, self._tally = receiver, post, tally
        self._pending: dict[tuple[str, int], ToldReceivers] = {}
        self._firing: dict[str, ToldReceivers] = {}
        self._newest: dict[Partition, int] = {}
        self._next_repeat = 0.0
        self._next_try = 0.0

    async def run(self) -> None:
        """Until cancelled. Raises ConnectorError when the topic is gone."""
        try:
            await self._reader.start()
            while True:
                await self._read()
                await self._tell()
                await self._reader.commit()
        finally:
            await self._post.close()
            await self._reader.close()

    async def _read(self) -> None:
        if len(self._pending) >= _MOST_PENDING:
            await asyncio.sleep(_POLL_S)
            return
        for batch in await self._reader.poll(max_records=500, timeout_s=_POLL_S):
            for record in batch.records:
                self._note(batch.partition, record)

    def _note(self, partition: Partition, record: RecordLike) -> None:
        alarm = orjson.loads(record.value or b"null")
        self._newest[partition] = record.offset
        if not isinstance(alarm, dict) or alarm["priority"] not in self._to.priorities or not was_raised(alarm):
            return
        told = ToldReceivers(partition, record.offset, alarm)
        if is_firing(alarm):
            self._firing[alarm["alarm"]] = told
        else:
            self._firing.pop(alarm["alarm"], None)
        if self._reader.is_new(partition, record.offset):
            self._pending[self._slot(told)] = told

    def _slot(self, told: ToldReceivers) -> tuple[str, int]:
        """Alertmanager wants the present state alone; others are told of every change."""
        return str(told.alarm["alarm"]), 0 if self._to.format == "alertmanager" else told.offset

    async def _tell(self) -> None:
        now = time.monotonic()
        if now >= self._next_repeat:
            self._next_repeat = now + self._to.repeat_s
            self._pending |= {
                self._slot(one): one for one in self._firing.values() if self._slot(one) not in self._pending
            }
        if self._pending and now >= self._next_try:
            await self._deliver()
        self._tally.webhooks_pending[self._to.name] = len(self._pending)
        for partition, newest in self._newest.items():
            waiting = [told.offset for told in self._pending.values() if told.partition == partition]
            self._reader.handled(partition, min([*waiting, newest + 1]) - 1)

    async def _deliver(self) -> None:
        slots = sorted(self._pending, key=lambda slot: self._pending[slot].offset)[: self._to.max_alerts]
        if await self._post.deliver([self._pending[slot].alarm for slot in slots]):
            for slot in slots:
                self._pending.pop(slot, None)
        else:
            self._next_try = time.monotonic() + self._to.repeat_s

    def _forget(self, partition: Partition) -> None:
        self._newest.pop(partition, None)
        self._pending = {slot: one for slot, one in self._pending.items() if one.partition != partition}
        self._firing = {name: one for name, one in self._firing.items() if one.partition != partition}
