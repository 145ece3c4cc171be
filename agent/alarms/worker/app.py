"""The Faust application: a thin shell that moves events, commands and ticks through the state machine.

Per input: 1. step, 2. publish transitions, alarms and audit and wait for their acknowledgements, 3. write the rows,
4. acknowledge the input when the rows are safe. Rows are sent through the table's changelog directly, because Faust's
own `table[key] = value` gives nobody a chance to wait for it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from agent.alarms.core.catalogue import Catalogue
from agent.alarms.core.inputs import Command, Tick, encode_input
from agent.alarms.counters import AlarmCounters
from agent.alarms.messages import INPUTS
from agent.alarms.worker.consoles import AppliedInput, ConsoleWorker
from agent.alarms.worker.event_inputs import event_input
from agent.alarms.worker.progress import InputsSkipped
from agent.alarms.worker.settings import WorkerSettings, app_of
from agent.alarms.worker.stall import StallDetector
from agent.contracts.received import parse_event
from connectors.errors import RecordError
from connectors.kafka.bounded import read_records
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.records import Partition, Record

log = structlog.get_logger()
_IN_FLIGHT = 1_000
_TABLE = "rows"


class AlarmWorker:
    """Owns the Faust app. `start` and `stop` are called by the app's own life."""

    def __init__(
        self, settings: WorkerSettings, catalogue: Catalogue, *, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.settings, self.catalogue, self.clock_ns = settings, catalogue, clock_ns
        self.tally = AlarmCounters()
        self.app = app_of(settings)
        self.inputs = self._topic(settings.topics[INPUTS])
        self.table = self.app.Table(_TABLE, partitions=settings.partitions, key_type=bytes, value_type=bytes)
        self.desk = ConsoleWorker(catalogue, lambda: self.table.data.items())
        self.sink = KafkaSink(settings.cluster, Delivery(settings.topics))
        self.standstill = StallDetector(self.app, self.tally, settings.topics[INPUTS], limit_s=settings.no_progress_s)
        self._room, self._opened = asyncio.Semaphore(_IN_FLIGHT), asyncio.Event()
        self._register()

    def _topic(self, name: str) -> Any:
        return self.app.topic(name, key_serializer="raw", value_serializer="raw", value_type=bytes, key_type=bytes)

    def _register(self) -> None:
        self.app.agent(self._topic(self.settings.events_topic), name="copy_events")(self._copy_events)
        self.app.agent(self.inputs, name="take_inputs")(self._take_inputs)
        self.app.timer(self.settings.tick_s, name="ticks")(self._send_ticks)
        self.app.task(self._open)
        self.beside(self.standstill.watch)
        self.app.on_partitions_revoked.connect(self._rebalanced)
        self.app.on_rebalance_complete.connect(self._rebalanced)

    def beside(self, helper: Callable[[], Awaitable[None]]) -> None:
        """Runs with the worker; its failure ends the worker."""

        async def run() -> None:
            try:
                await helper()
            except Exception as error:
                log.error("the alarms stop: a helper failed", helper=str(helper), error=str(error))
                await self.app.crash(error)
                raise

        self.app.task(run)

    async def submit(self, console: str, command: Command) -> None:
        """Returns when the command is safe in the input log."""
        await (await self.inputs.send(key=console.encode(), value=encode_input(command)))

    @property
    def ready(self) -> bool:
        """Tables are recovered and there is something to do."""
        return bool(self.app.tables.actives_ready and self.app.consumer.assignment())

    @property
    def _sequence(self) -> Any:
        return self.app.tables.recovery.sequence

    def _is_input(self, place: Any) -> bool:
        return bool(place.topic == self.settings.topics[INPUTS])

    async def _open(self) -> None:
        await self.sink.start()
        self._opened.set()

    async def _rebalanced(self, *_: Any, **__: Any) -> None:
        self.desk.forget()

    async def _copy_events(self, stream: Any) -> None:
        """Repeats are harmless: the state machine knows the last window end of every asset."""
        async for event in stream.noack().events():
            copied = self._copied(event.message)
            if copied is None:
                event.ack()
                continue
            key, value = copied
            await self._room.acquire()
            sent = await self.inputs.send(key=key, value=value)
            sent.add_done_callback(lambda done, event=event: self._safe(event, [done]))

    def _copied(self, message: Any) -> tuple[bytes, bytes] | None:
        record = Record(message.offset, int(message.timestamp * 1000), message.key, message.value, _headers(message))
        try:
            event = parse_event(record, Partition(message.topic, message.partition))
            entry = event_input(event, self.catalogue, self.clock_ns())
        except RecordError as error:
            self.tally.ignored["not_an_event"] += 1
            log.warning("event skipped", topic=message.topic, offset=message.offset, reason=str(error))
            return None
        console = None if entry is None else self.catalogue.console_for(entry.group, entry.asset)
        if entry is None or console is None:
            self.tally.ignored["no_rule" if entry is None else "no_console"] += 1
            return None
        return console.encode(), encode_input(entry)

    async def _take_inputs(self, stream: Any) -> None:
        async for event in stream.noack().events():
            finished = False
            try:
                await self._take(event)
                finished = True
            except Exception as error:
                log.error("the alarms stop: an input could not be finished", input=str(event.message), error=str(error))
                await self.app.crash(error)
                raise
            finally:
                if not finished:  # what the desk remembers is ahead of the table
                    self.desk.forget()

    async def _take(self, event: Any) -> None:
        message = event.message
        await self._demand_every_input(message)
        work = self.desk.take(message.key, message.value, message.offset, int(message.timestamp * 1e9))
        await self._publish(work)
        await self._write(event, work)
        self._sequence.taken(message.tp, message.offset)

    async def _demand_every_input(self, message: Any) -> None:
        """A hole is a lost alarm, unless nothing was ever written there (the marks of somebody's transactions)."""
        hole = self._sequence.hole(message.tp, message.offset)
        if not hole:
            return
        found: Any  # a record with its partition
        async for found in read_records(self.settings.cluster, message.topic):
            if found.partition == message.partition and found.offset in hole:
                raise InputsSkipped(f"{message.tp}: inputs {hole.start} to {hole.stop - 1} were skipped")

    async def _publish(self, work: AppliedInput) -> None:
        if work.messages:
            await self._opened.wait()
            await self.sink.write(work.messages)
        self.tally.count(work.transitions, self.desk)

    async def _write(self, event: Any, work: AppliedInput) -> None:
        sent = []
        for key, value in work.rows:
            sent.append(self.table.send_changelog(event.message.partition, key, value))
            self._store(key, value)
        await self._room.acquire()
        if not sent:
            self._safe(event, [])
            return
        gathered = asyncio.gather(*sent)
        gathered.add_done_callback(lambda done: self._safe(event, [done]))

    def _store(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.table.data.pop(key, None)
        else:
            self.table.data[key] = value

    def _safe(self, event: Any, done: Sequence["asyncio.Future[Any]"]) -> None:
        """The other side has it: the record need not be read again."""
        self._room.release()
        failed = next((error for one in done if (error := _error(one)) is not None), None)
        if failed is None:
            event.ack()
        else:
            self.app.loop.create_task(self.app.crash(failed))

    async def _send_ticks(self) -> None:
        """Only for consoles whose partition is here, so that several workers do not tick for each other."""
        held = {at.partition for at in self.app.consumer.assignment() if self._is_input(at)}
        value = encode_input(Tick(self.clock_ns()))
        for name in self.catalogue.console_names():
            place = self.app.producer.key_partition(self.settings.topics[INPUTS], name.encode())
            if place.partition in held:
                await self.inputs.send(key=name.encode(), value=value)


def _headers(message: Any) -> list[tuple[str, bytes]]:
    headers = message.headers or {}
    return list(headers.items() if isinstance(headers, dict) else headers)


def _error(done: "asyncio.Future[Any]") -> BaseException | None:
    if done.cancelled():
        return asyncio.CancelledError()
    return done.exception()
