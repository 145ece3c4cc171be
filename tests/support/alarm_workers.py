"""Alarm workers as processes, with a plant and topics of their own on a given broker."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from agent.alarms.core.inputs import Input, encode_input
from agent.events.payloads import event_source
from connectors.errors import ConnectorError
from connectors.kafka.bounded import read_records
from connectors.kafka.cluster import Cluster
from connectors.records import Message

Result = TypeVar("Result")
PROGRAM = "from agent.cli.main import main; main()"
RULE = {
    "group": "pumps",
    "priority": "high",
    "cause": "bearing wear",
    "consequence": "the pump seizes",
    "action": "change over to the spare",
    "respond_within": "10m",
}


def rule(name: str, **facts: Any) -> dict[str, Any]:
    return {**RULE, "name": name, **facts}


class AlarmPlant:
    """A configuration with its own topics. `tick` is long by default: the tests write their own ticks."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        name: str,
        *,
        tick: str = "1h",
        connection: dict[str, Any] | None = None,
        no_progress: str = "1m",
        **alarms: Any,
    ) -> None:
        """`connection`: how the worker reaches the broker, if not in the same way as the test."""
        self.bootstrap, self.name = bootstrap, name
        self._connection = {"bootstrap": bootstrap} | (connection or {})
        self._limits = {"no_progress": no_progress}
        self.topics = {one: f"{name}-{one}" for one in ("inputs", "transitions", "alarms", "audit")}
        self.config = directory / "plant.yaml"
        consoles = [{"name": f"hall-{at}", "assets": [f"pump-{at}-*"]} for at in range(4)]
        section = {"topics": self.topics, "tick": tick, "partitions": 4, "consoles": consoles, "http": None}
        section["directory"] = str(directory / "faust")
        section |= {"rules": [rule("wear", states=["worn"], raise_at=0.6, clear_below=0.4, on_delay="4s")]} | alarms
        self.config.write_text(yaml.safe_dump(self._plant(section)))

    def _plant(self, alarms: dict[str, Any]) -> dict[str, Any]:
        topics = {"events": f"{self.name}-events", "states": f"{self.name}-states", "dead_letters": f"{self.name}-dead"}
        return {
            "namespace": self.name,
            "source": {"kind": "memory"},
            "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "none"}}],
            "sinks": [{"kind": "kafka", "topics": topics, **self._connection}],
            "emission": {"policy": "all"},
            "limits": self._limits,
            "alarms": alarms,
            "logging": {"format": "json", "level": "info"},
        }

    def worker(self, *arguments: str) -> "Worker":
        return Worker(self.config, arguments)

    def alarm(self, *arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
        """Runs `anchormoe-agent alarm …`; commands need a token."""
        program = [sys.executable, "-c", PROGRAM, "alarm", *arguments, "--config", str(self.config)]
        environment = {**os.environ, "ANCHORMOE_TOKEN": token}
        return subprocess.run(program, capture_output=True, text=True, timeout=120, env=environment)

    def url(self, worker: "Worker") -> str:
        """Where a worker with `http: {port: 0}` listens."""
        self.wait(lambda: "serving" in worker.text)
        return str(re.findall(r"https?://127[0-9.]+:\d+", worker.text)[0])

    def send_events(self, events: Iterable[Message]) -> None:
        """As if the agent of this plant had published them."""
        self.send([self._own_event(one) for one in events])

    def _own_event(self, event: Message) -> Message:
        source = event_source(self.name).encode()
        headers = tuple((name, source if name == "ce_source" else value) for name, value in event.headers)
        return replace(event, stream=f"{self.name}-events", headers=headers)

    def write(self, entries: Iterable[tuple[str, Input]]) -> None:
        """Writes inputs to the log, each for its console."""
        self.send([Message(self.topics["inputs"], console.encode(), encode_input(entry)) for console, entry in entries])

    def send(self, messages: Iterable[Message]) -> None:
        in_thread(lambda: _send(self.bootstrap, list(messages)))

    def read(self, stream: str) -> list[dict[str, Any]]:
        return in_thread(lambda: _read(self.bootstrap, self.topics[stream]))

    def count(self, stream: str) -> int:
        """Messages in a topic, including repeats."""
        return in_thread(lambda: _count(self.bootstrap, self.topics[stream]))

    def committed(self) -> int:
        """Committed inputs of the workers' consumer group."""
        return in_thread(lambda: _committed(self.bootstrap, f"anchormoe-alarms-{self.name}", self.topics["inputs"]))

    def exists(self, stream: str) -> bool:
        try:
            self.read(stream)
        except ConnectorError:
            return False
        return True

    def wait(self, what: Callable[[], bool], *, timeout_s: float = 180) -> None:
        deadline = time.monotonic() + timeout_s
        while not what():
            if time.monotonic() > deadline:
                raise AssertionError(f"not true within {timeout_s:.0f} s")
            time.sleep(0.2)


class Worker:
    """`anchormoe-agent alarms` in its own process; its output goes to a file."""

    def __init__(self, config: Path, arguments: Iterable[str]) -> None:
        self.log = config.parent / f"worker-{time.monotonic_ns()}.log"
        command = [sys.executable, "-c", PROGRAM, "alarms", "--config", str(config), *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def freeze(self) -> None:
        """Stops the process without ending it."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(120)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def in_thread(coroutine: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Runs a coroutine in a loop of its own, for tests that are not async."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(coroutine())).result()


async def _send(bootstrap: str, messages: list[Message]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        for sent in [
            await producer.send(one.stream, key=one.key, value=one.value, headers=list(one.headers)) for one in messages
        ]:
            await sent
    finally:
        await producer.stop()


async def _committed(bootstrap: str, group: str, topic: str) -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(group)
        return sum(place.offset for at, place in found.items() if at.topic == topic)
    finally:
        await admin.close()


async def _count(bootstrap: str, topic: str) -> int:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        places = [TopicPartition(topic, number) for number in range(4)]
        return sum((await consumer.end_offsets(places)).values())
    finally:
        await consumer.stop()


async def _read(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [orjson.loads(record.value or b"null") async for record in read_records(Cluster(bootstrap), topic)]
