"""The Faust app that moves events, commands and ticks through the state machine.

Per input: 1. step, 2. publish transitions, alarms and audit and wait for the broker's acknowledgement, 3. send the
rows, 4. acknowledge the input when the broker has acknowledged the rows. Rows are sent to the table's changelog
directly, because nothing can wait for Faust's own `table[key] = value`.

While the broker is waited for, further inputs are stepped; what they ask for is published together, in their order.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import structlog

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.inputs import Command, Tick, encode_input
from agent.alarms.counters import AlarmCounters
from agent.alarms.messages import audit_message
from agent.alarms.text import printable
from agent.alarms.worker.consoles import AppliedInput, ConsoleWorker, refused_input
from agent.alarms.worker.event_inputs import encode_event, event_input
from agent.alarms.worker.present import last_values, set_back
from agent.alarms.worker.settings import WorkerSettings, faust_app
from agent.alarms.worker.stall import ExpectedOffsets, StallDetector, require_none_skipped
from agent.contracts.alarms import ALARMS, INPUTS
from agent.contracts.received import NOT_AN_EVENT, parse_event
from agent.events.payloads import event_source
from connectors.errors import ConnectorError, RecordError
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.records import Partition, Record

log = structlog.get_logger()
_MAX_IN_FLIGHT = 1_000
_MAX_UNPUBLISHED = 500
"""Inputs that are applied in memory and not yet published; so many may be repeated after a crash."""
_HAND_OVER_S = 5.0
"""How long a rebalance waits for them."""
_RETRY_S = 5.0
_TABLE = "rows"


class InFlight:
    """Records that are acknowledged when the broker has acknowledged what was sent for them; at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._slots, self._failed = asyncio.Semaphore(limit), asyncio.Event()
        self._error: BaseException | None = None

    async def add(self, record: Any, sent: Sequence["asyncio.Future[Any]"]) -> None:
        """`record`: a Faust event; it is never acknowledged if something of `sent` fails."""
        await self._slots.acquire()
        acknowledged = asyncio.gather(*sent)  # noqa: TID251  # acknowledgements, not tasks
        acknowledged.add_done_callback(partial(self._settle, record))

    async def watch(self) -> None:
        """Until something sent was not acknowledged; raises ConnectorError."""
        await self._failed.wait()
        raise ConnectorError(f"the broker did not acknowledge a write: {self._error!r}") from self._error

    def _settle(self, record: Any, sent: "asyncio.Future[Any]") -> None:
        self._slots.release()
        error = asyncio.CancelledError() if sent.cancelled() else sent.exception()
        if error is None:
            record.ack()
        elif self._error is None:
            self._error = error
            self._failed.set()


class Outbox:
    """What was applied and is not yet published, in order; at most `limit` inputs.

    An entry without an event belongs to no input: it has messages only, and nothing is acknowledged for it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[tuple[Any, AppliedInput]] = deque()
        self._changed, self._publishing = asyncio.Condition(), False

    async def wait_for_room(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < self._limit)

    def add(self, event: Any, applied: AppliedInput) -> None:
        """Does not wait: an input that changed a console in memory is in the outbox, whoever is cancelled meanwhile."""
        self._waiting.append((event, applied))

    async def announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def wait_until_empty(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._waiting and not self._publishing)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[list[tuple[Any, AppliedInput]]]:
        """All that wait, as soon as there is one; while the block publishes them, the outbox is not empty."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._waiting))
            taken, self._publishing = list(self._waiting), True
            self._waiting.clear()
            self._changed.notify_all()
        try:
            yield taken
        finally:
            self._publishing = False
            await self.announce()


class AlarmWorker:
    """Owns the Faust app, which runs everything here as agents, timers and tasks of its own."""

    def __init__(
        self, settings: WorkerSettings, catalogue: Catalogue, *, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.settings, self.catalogue, self.clock_ns = settings, catalogue, clock_ns
        self.counters = AlarmCounters()
        self.app = faust_app(settings)
        self.inputs = self._topic(settings.topics[INPUTS])
        self.table = self.app.Table(_TABLE, partitions=settings.partitions, key_type=bytes, value_type=bytes)
        self.console_worker = ConsoleWorker(catalogue, lambda: self.table.data.items())
        self.sink = KafkaSink(settings.cluster, Delivery(settings.topics))
        self.stall = StallDetector(self.app, self.counters, settings.topics[INPUTS], limit_s=settings.no_progress_s)
        self._in_flight, self._sink_started = InFlight(_MAX_IN_FLIGHT), asyncio.Event()
        self._outbox, self._recovered = Outbox(_MAX_UNPUBLISHED), asyncio.Event()
        self._register()

    def _topic(self, name: str) -> Any:
        return self.app.topic(name, key_serializer="raw", value_serializer="raw", value_type=bytes, key_type=bytes)

    def _register(self) -> None:
        self.app.agent(self._topic(self.settings.events_topic), name="copy_events")(self._copy_events)
        self.app.agent(self.inputs, name="take_inputs")(self._take_inputs)
        self.app.timer(self.settings.tick_s, name="ticks")(self._send_ticks)
        self.app.task(self._start_sink)
        self.add_helper(self.stall.watch)
        self.add_helper(self._in_flight.watch)
        self.add_helper(self._publish_outbox)
        self.add_helper(self._repair_present_alarms)
        self.app.on_partitions_revoked.connect(self._on_rebalance)
        self.app.on_rebalance_complete.connect(self._on_rebalance)
        self.app.on_rebalance_complete.connect(self._on_recovered)

    def add_helper(self, helper: Callable[[], Awaitable[None]]) -> None:
        """Runs together with the worker; its failure ends the worker."""

        async def run() -> None:
            try:
                await helper()
            except Exception as error:
                log.error("alarm worker stops: a helper failed", helper=str(helper), error=str(error))
                await self.app.crash(error)
                raise

        self.app.task(run)

    async def submit(self, console: str, command: Command) -> None:
        """Returns when the command is in the input log."""
        await (await self.inputs.send(key=console.encode(), value=encode_input(command)))

    @property
    def ready(self) -> bool:
        """The tables are recovered and partitions are assigned."""
        return bool(self.app.tables.actives_ready and self.app.consumer.assignment())

    @property
    def _expected(self) -> ExpectedOffsets:
        expected: ExpectedOffsets = self.app.tables.recovery.expected
        return expected

    async def _start_sink(self) -> None:
        await self.sink.start()
        self._sink_started.set()

    async def _on_rebalance(self, *_: Any, **__: Any) -> None:
        """What was applied is published before another worker begins; what is not is repeated, equal by id."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HAND_OVER_S):
                await self._outbox.wait_until_empty()
        self.console_worker.forget()

    async def _on_recovered(self, *_: Any, **__: Any) -> None:
        self._recovered.set()

    async def _repair_present_alarms(self) -> None:
        """After every rebalance, because a worker that was frozen causes one when it wakes: see present.py."""
        while True:
            await self._recovered.wait()
            self._recovered.clear()
            try:
                await self._publish_set_back()
            except ConnectorError as error:
                log.warning("the present alarms could not be compared", error=str(error), again_in_s=_RETRY_S)
                await asyncio.sleep(_RETRY_S)
                self._recovered.set()

    async def _publish_set_back(self) -> None:
        """Through the outbox, so that what further inputs publish comes after it."""
        shown = await last_values(self.settings.cluster, self.settings.topics[ALARMS])
        messages = [
            message
            for name in self._own_consoles()
            for message in set_back(name, self.catalogue, self.console_worker.alarms(name), shown)
        ]
        if messages:
            log.warning("present alarms were set back by another worker: publishing them again", count=len(messages))
            self._outbox.add(None, AppliedInput(messages))
            await self._outbox.announce()

    async def _copy_events(self, stream: Any) -> None:
        """Repeats are harmless: the state machine knows the last window end of every asset."""
        async for event in stream.noack().events():
            try:
                copied = self._to_input(event.message)
            except RecordError as error:
                await self._refuse_event(event.message, error)
                copied = None
            if copied is None:
                event.ack()
                continue
            key, value = copied
            await self._in_flight.add(event, [await self.inputs.send(key=key, value=value)])

    def _to_input(self, message: Any) -> tuple[bytes, bytes] | None:
        """None for an event that is not for these alarms. Raises RecordError for anything that is not an event."""
        try:
            return self._convert(message)
        except RecordError:
            raise
        except Exception as error:  # no message of the topic may stop the worker
            log.exception("an event failed", topic=message.topic, offset=message.offset)
            raise RecordError("internal", f"failed: {type(error).__name__}") from error

    def _convert(self, message: Any) -> tuple[bytes, bytes] | None:
        record = Record(message.offset, int(message.timestamp * 1000), message.key, message.value, _headers(message))
        event = parse_event(record, Partition(message.topic, message.partition))
        if event.source != event_source(self.settings.namespace):
            self.counters.ignored["other_namespace"] += 1
            return None
        entry = event_input(event, self.catalogue, self.clock_ns())
        console = None if entry is None else self.catalogue.console_for(entry.group, entry.asset)
        if entry is None or console is None:
            self.counters.ignored["no_rule" if entry is None else "no_console"] += 1
            return None
        return console.encode(), encode_event(entry)

    async def _refuse_event(self, message: Any, error: RecordError) -> None:
        """Counted, and in the audit with its place, where whoever wrote it can find out why nothing happened."""
        self.counters.ignored[NOT_AN_EVENT if error.reason == NOT_AN_EVENT else f"event_{error.reason}"] += 1
        place = _place(message)
        log.warning("event skipped", place=place, reason=printable(error.detail, 500))
        entry = refused_input("", place, "event", _written_ns(message.timestamp), error)
        await self._sink_started.wait()
        await self.sink.write([audit_message(entry)])

    async def _take_inputs(self, stream: Any) -> None:
        async for event in stream.noack().events():
            finished = False
            try:
                await self._take(event)
                finished = True
            except Exception as error:
                log.error("alarm worker stops: an input failed", input=_place(event.message), error=str(error))
                await self.app.crash(error)
                raise
            finally:
                if not finished:  # the consoles in memory are ahead of the table
                    self.console_worker.forget()

    async def _take(self, event: Any) -> None:
        """Between the step and the outbox nothing waits: the table in memory always has what the consoles have."""
        message = event.message
        await self._require_no_gap(message)
        await self._outbox.wait_for_room()
        written_ns = _written_ns(message.timestamp)
        applied = self.console_worker.take(message.key, message.value, message.offset, written_ns)
        for key, value in applied.rows:
            self._store(key, value)
        self._outbox.add(event, applied)
        self._expected.advance(message.tp, message.offset)
        await self._outbox.announce()

    async def _require_no_gap(self, message: Any) -> None:
        """Skipped offsets are lost inputs, unless the log has no records there (transaction markers)."""
        missing = self._expected.missing_before(message.tp, message.offset)
        if missing:
            await require_none_skipped(self.settings.cluster, Partition(message.topic, message.partition), missing)

    async def _publish_outbox(self) -> None:
        """Messages of all inputs that wait, one wait for the broker, then their rows."""
        while True:
            async with self._outbox.take() as taken:
                messages = [message for _, applied in taken for message in applied.messages]
                if messages:
                    await self._sink_started.wait()
                    await self.sink.write(messages)
                for event, applied in taken:
                    if event is None:
                        continue
                    self.counters.count(applied.transitions, self.console_worker.ignored)
                    self.console_worker.ignored.clear()
                    await self._write_rows(event, applied)

    async def _write_rows(self, event: Any, applied: AppliedInput) -> None:
        partition = event.message.partition
        await self._in_flight.add(event, [self.table.send_changelog(partition, *row) for row in applied.rows])

    def _store(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.table.data.pop(key, None)
        else:
            self.table.data[key] = value

    async def _send_ticks(self) -> None:
        """Only for consoles of this worker's partitions, so that several workers do not tick twice."""
        value = encode_input(Tick(self.clock_ns()))
        for name in self._own_consoles():
            await self.inputs.send(key=name.encode(), value=value)

    def _own_consoles(self) -> list[str]:
        """Those of this worker's partitions."""
        topic, assigned = self.settings.topics[INPUTS], self.app.consumer.assignment()
        partition_of = self.app.producer.key_partition
        return [name for name in self.catalogue.console_names() if partition_of(topic, name.encode()) in assigned]


def _place(message: Any) -> str:
    """Not the message itself, which may hold patients' data."""
    return f"{message.topic}/{message.partition}@{message.offset}"


def _written_ns(timestamp_s: float | None) -> int:
    """When the record was written, by its own timestamp; 0 where it has none."""
    return int((timestamp_s or 0.0) * 1e9)


def _headers(message: Any) -> list[tuple[str, bytes]]:
    headers = message.headers or {}
    return list(headers.items() if isinstance(headers, dict) else headers)
