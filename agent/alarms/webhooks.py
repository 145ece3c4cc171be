"""Sends alarms to receivers: every present alarm is posted until the receiver accepts it.

The offset in the `alarms` topic is committed only up to what was accepted, so that a worker that is killed loses
nothing. The topic is read from its beginning to know which alarms are firing; only what the consumer group has not yet
handled is sent at once.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import structlog
from aiokafka import TopicPartition

from agent.alarms.alert_payloads import Format, body, is_firing, signature, was_raised
from agent.alarms.counters import AlarmCounters
from agent.alarms.received import parse_alarm
from agent.alarms.text import printable
from connectors.errors import RecordError, TransientError
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import ReadOptions, TopicReader
from connectors.records import Partition, RecordLike
from connectors.webhook import Receiver, WebhookClient

log = structlog.get_logger()
_EVERYTHING = 1 << 62
_POLL_S = 0.5
_MAX_PENDING = 10_000
_MAX_REQUEST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class AlarmReceiver:
    """Which alarms to send to a receiver, and how. Firing and unaccepted alarms are sent again every `repeat_s`."""

    name: str
    receiver: Receiver
    format: Format = "generic"
    priorities: frozenset[str] = frozenset({"low", "medium", "high"})
    secret: str | Callable[[], str] | None = field(default=None, repr=False)
    repeat_s: float = 60.0
    max_alerts: int = 100


@dataclass(frozen=True, slots=True)
class QueuedAlarm:
    """An alarm and its position in the topic."""

    partition: Partition
    offset: int
    alarm: Mapping[str, Any]
    size: int = 0


class AlarmDelivery:
    """Posts alarms to one receiver, with counters and logs by its name."""

    def __init__(self, receiver: AlarmReceiver, namespace: str, counters: AlarmCounters) -> None:
        """Raises `ConnectorError` if the URL or the token cannot be used."""
        self._to, self._namespace, self._counters = receiver, namespace, counters
        self._client = WebhookClient(receiver.receiver, on_failure=self._on_failure)

    async def deliver(self, alarms: Sequence[Mapping[str, Any]]) -> bool:
        """False if the alarms must be sent again later. What the receiver rejects for good (4xx) is not sent again."""
        try:
            payload = self.payload(alarms)
            response = await self._client.post(lambda: self._headers(payload), payload)
        except TransientError:
            return False  # counted and logged with every try
        except Exception as error:  # noqa: BLE001  # whatever a receiver makes us raise must not stop the other alarms
            self._count("failed")
            log.error("webhook failed", receiver=self._to.name, error=type(error).__name__)
            return False
        if response.accepted:
            self._count("accepted")
            return True
        rejected = response.status >= 400
        self._count("refused" if rejected else "failed")
        log.error(
            "webhook rejected alarms" if rejected else "webhook did not accept alarms; will be sent again",
            receiver=self._to.name,
            address=str(self._client),
            status=response.status,
            answer=response.text,
            alarms=len(alarms),
        )
        return rejected

    def payload(self, alarms: Sequence[Mapping[str, Any]]) -> bytes:
        return body(self._to.format, alarms, self._namespace)

    async def close(self) -> None:
        await self._client.close()

    def _headers(self, payload: bytes) -> list[tuple[str, str]]:
        stamp = str(int(time.time()))
        headers = [("Content-Type", "application/json"), ("X-Anchormoe-Timestamp", stamp)]
        secret = self._to.secret() if callable(self._to.secret) else self._to.secret
        if secret is not None:
            headers.append(("X-Anchormoe-Signature", signature(secret, stamp, payload)))
        if (token := self._to.receiver.bearer) is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        return headers

    def _on_failure(self, error: TransientError) -> None:
        self._count("failed")
        log.warning("webhook failed", receiver=self._to.name, reason=str(error))

    def _count(self, outcome: str) -> None:
        self._counters.webhooks[self._to.name, outcome] += 1


class _AlarmReader(TopicReader):
    """Reports revoked partitions: another worker repeats their alarms."""

    def __init__(self, cluster: Cluster, reading: ReadOptions, revoked: Callable[[Partition], None]) -> None:
        super().__init__(cluster, reading)
        self._revoked = revoked

    async def give(self, partitions: Collection[TopicPartition]) -> None:
        await super().give(partitions)
        for at in partitions:
            self._revoked(Partition(at.topic, at.partition))


class AlarmSender:
    """Reads the present alarms and sends them to one receiver."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        group: str,
        receiver: AlarmReceiver,
        delivery: AlarmDelivery,
        counters: AlarmCounters,
    ) -> None:
        reading = ReadOptions(topic, group=f"{group}-{receiver.name}", from_beginning=True, look_back=_EVERYTHING)
        self._reader = _AlarmReader(cluster, reading, self._forget)
        self._to, self._delivery, self._counters = receiver, delivery, counters
        self._pending: dict[tuple[str, int], QueuedAlarm] = {}
        self._firing: dict[str, QueuedAlarm] = {}
        self._newest: dict[Partition, int] = {}
        self._next_repeat = 0.0
        self._next_try = 0.0

    async def run(self) -> None:
        """Until cancelled. Raises ConnectorError if the topic cannot be read."""
        try:
            await self._reader.start()
            while True:
                await self._read()
                await self._send()
                await self._reader.commit()
        finally:
            await self._delivery.close()
            await self._reader.close()

    async def _read(self) -> None:
        if len(self._pending) >= _MAX_PENDING:
            await asyncio.sleep(_POLL_S)
            return
        for batch in await self._reader.poll(max_records=500, timeout_s=_POLL_S):
            for record in batch.records:
                self._add(batch.partition, record)

    def _add(self, partition: Partition, record: RecordLike) -> None:
        self._newest[partition] = record.offset
        alarm = None if record.value is None else self._parse(partition, record)
        if alarm is None or alarm["priority"] not in self._to.priorities or not was_raised(alarm):
            return
        queued = QueuedAlarm(partition, record.offset, alarm, len(record.value or b""))
        if is_firing(alarm):
            self._firing[alarm["alarm"]] = queued
        else:
            self._firing.pop(alarm["alarm"], None)
        if self._reader.is_new(partition, record.offset):
            self._pending[self._slot(queued)] = queued

    def _parse(self, partition: Partition, record: RecordLike) -> Mapping[str, Any] | None:
        """None for a record that is not an alarm, whoever wrote it: it must not hold up the alarms behind it."""
        try:
            alarm = parse_alarm(record.value)
            self._delivery.payload([alarm])
        except RecordError as error:
            reason = error.detail
        except Exception as error:  # noqa: BLE001  # no record may end the delivery of all alarms
            reason = type(error).__name__
        else:
            return alarm
        self._counters.webhooks[self._to.name, "unusable"] += 1
        log.warning("not an alarm; skipped", place=f"{partition}@{record.offset}", reason=printable(reason, 500))
        return None

    def _slot(self, queued: QueuedAlarm) -> tuple[str, int]:
        """Alertmanager needs only the latest state of an alarm; other receivers get every change."""
        return str(queued.alarm["alarm"]), 0 if self._to.format == "alertmanager" else queued.offset

    async def _send(self) -> None:
        now = time.monotonic()
        if now >= self._next_repeat:
            self._next_repeat = now + self._to.repeat_s
            self._pending = {self._slot(one): one for one in self._firing.values()} | self._pending
        if self._pending and now >= self._next_try:
            await self._deliver()
        self._counters.webhooks_pending[self._to.name] = len(self._pending)
        for partition, newest in self._newest.items():
            waiting = [queued.offset for queued in self._pending.values() if queued.partition == partition]
            self._reader.handled(partition, min([*waiting, newest + 1]) - 1)

    async def _deliver(self) -> None:
        slots = self._next_slots()
        if await self._delivery.deliver([self._pending[slot].alarm for slot in slots]):
            for slot in slots:
                self._pending.pop(slot, None)
        else:
            self._next_try = time.monotonic() + self._to.repeat_s

    def _next_slots(self) -> list[tuple[str, int]]:
        """The oldest alarms, as many as one request may have; at least one."""
        ordered = sorted(self._pending, key=lambda slot: self._pending[slot].offset)[: self._to.max_alerts]
        sizes = accumulate(self._pending[slot].size for slot in ordered)
        fitting = sum(size <= _MAX_REQUEST_BYTES for size in sizes)
        return ordered[: max(fitting, 1)]

    def _forget(self, partition: Partition) -> None:
        self._newest.pop(partition, None)
        self._pending = {slot: one for slot, one in self._pending.items() if one.partition != partition}
        self._firing = {name: one for name, one in self._firing.items() if one.partition != partition}
