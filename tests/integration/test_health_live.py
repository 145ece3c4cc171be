"""The real `anchormoe-agent run` on a real broker and a real Redis server: its pages, its figures, its free loop."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from agent.runtime.lifecycle import run_with_helpers
from anchormoe import AnchorMoEClassifier
from connectors.kafka.cluster import Cluster
from connectors.kafka.source import KafkaSource, Subscription
from connectors.memory import MemorySink
from connectors.records import EVENTS
from tests.conftest import KafkaFactory, RedisFactory
from tests.support.services.kafka import Broker
from tests.support.services.processes import ServiceProcess
from tests.support.small_plant import pipeline

LENGTH, PERIOD_MS, ASSETS = 32, 100, 8
START_MS = 1_700_000_000_000
LONGEST_LOOP_DELAY_S = 5.0
"""A third of the time after which Kafka throws a silent member out; a busy machine may well take a second of it."""
PROMPT = 0.8
"""Share of the ticks that must come within a tenth of a second, also on a busy machine."""

PLANT = """
namespace: health
source:
  kind: kafka
  bootstrap: {bootstrap}
  topics: [{topic}]
groups:
  - name: pumps
    assets: ["pump-*"]
    model: {{bundle: bundle}}
    period: {period}ms
    channels: [{{name: {first}, field: p}}, {{name: {second}, field: q}}]
store: {{kind: redis, url: "{redis}"}}
sinks:
  - {{kind: jsonl, directory: out}}
emission: {{policy: all, channels: none}}
inference: {{threads: 1, device: cpu}}
checkpoint: {{every: 500ms}}
limits: {{no_progress: 10s}}
http: {{port: {port}}}
logging: {{format: json}}
"""

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Slow and fast oscillation, told apart by a small kernel model."""
    rng = np.random.default_rng(5)
    labels = np.repeat(["slow", "fast"], 12)
    speed = np.where(labels == "slow", 0.2, 1.0)[:, None, None]
    phase = rng.uniform(0, 6, (24, 2, 1))
    x = np.sin(speed * np.arange(LENGTH) + phase) + 0.1 * rng.normal(size=(24, 2, LENGTH))
    folder = tmp_path_factory.mktemp("bundle") / "bundle"
    AnchorMoEClassifier(recipe="kernel", profile="fast", random_state=0).fit(x, labels).save(folder)
    return folder


class Agent:
    """The command in its own process, in a directory with its plant."""

    def __init__(self, bundle: Path, **values: Any) -> None:
        self.process = ServiceProcess("agent")
        (self.process.directory / "bundle").symlink_to(bundle)
        first, second = json.loads((bundle / "config.json").read_text())["channels"]
        text = PLANT.format(first=first, second=second, period=PERIOD_MS, **values)
        (self.process.directory / "plant.yaml").write_text(text)

    def launch(self) -> None:
        """Through a shell that stays for the exit code, also when the whole group is asked to end."""
        program = "from agent.cli.main import main; main()"
        shell = ["sh", "-c", 'trap : TERM; "$@"; echo "exit code $?"', "sh"]
        self.process.launch([*shell, sys.executable, "-c", program, "run"], environment={"OMP_NUM_THREADS": "1"})

    def lines(self) -> list[dict[str, Any]]:
        whole = [line for line in self.process.log.read_text().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in whole]

    def last_words(self) -> list[str]:
        lines = self.process.log.read_text().splitlines()
        return [line for line in lines if line.startswith(("error:", "exit code", "Traceback"))]

    def answer(self, page: str) -> httpx.Response:
        return httpx.get(f"{self.url}{page}", trust_env=False, timeout=60)

    @property
    def url(self) -> str | None:
        return next((line["url"] for line in self.lines() if line["event"] == "serving health and metrics"), None)


Closing = Callable[[Agent], Agent]


@pytest.fixture
def closing() -> Iterator[Closing]:
    agents: list[Agent] = []

    def close_later(agent: Agent) -> Agent:
        agents.append(agent)
        return agent

    yield close_later
    for agent in agents:
        agent.process.close()


async def produce(bootstrap: str, topic: str, steps: range) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)
    await producer.start()
    try:
        for step in steps:
            at = START_MS + step * PERIOD_MS
            for asset in range(ASSETS):
                value = orjson.dumps({"ts": at, "p": float(np.sin(0.2 * step)), "q": float(np.cos(0.2 * step))})
                await producer.send(topic, value, key=b"pump-%d" % asset, timestamp_ms=at)
        await producer.send(topic, b"not json", key=b"pump-0", timestamp_ms=START_MS)
        await producer.flush()
    finally:
        await producer.stop()


def scraped(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def total(samples: Samples, name: str) -> float:
    return sum(samples[name].values())


def wait_for(what: Callable[[], bool], timeout_s: float = 180) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.1)


@pytest.mark.slow
def test_the_running_agent_tells_how_it_is_and_keeps_its_loop_free(
    kafka: Broker, redis_factory: RedisFactory, topic_name: str, bundle: Path, closing: Closing
) -> None:
    kafka.create_topic(topic_name, 2)
    redis = redis_factory("redis")
    agent = closing(Agent(bundle, bootstrap=kafka.bootstrap, topic=topic_name, redis=redis.url, port=0))
    agent.launch()
    agent.process.wait_until(lambda: agent.url is not None, 180)
    assert agent.url is not None
    with httpx.Client(base_url=agent.url, trust_env=False, timeout=60) as client:
        wait_for(lambda: client.get("/readyz").status_code == 200)
        asyncio.run(produce(kafka.bootstrap, topic_name, range(1000)))
        wait_for(lambda: total(scraped(client.get("/metrics").text), "anchormoe_records_total") == 1000 * ASSETS + 1)
        wait_for(lambda: client.get("/livez").json()["checks"]["progress"]["detail"] == "nothing to do")
        figures = scraped(client.get("/metrics").text)
        assert client.get("/livez").status_code == client.get("/readyz").status_code == 200

        assert figures["anchormoe_partitions"] == {(): 2}
        assert total(figures, "anchormoe_lag_records") == 0
        assert total(figures, "anchormoe_position") == 1000 * ASSETS + 1
        assert figures["anchormoe_dead_letters_total"] == {(("reason", "not_json"),): 1}
        assert total(figures, "anchormoe_events_total") == total(figures, "anchormoe_windows_total") > 0
        assert figures["anchormoe_stage_seconds_count"][(("stage", "classify"),)] > 0
        assert total(figures, "anchormoe_checkpoint_bytes_total") > 0
        assert 0 < total(figures, "anchormoe_loop_delay_max_seconds") < LONGEST_LOOP_DELAY_S
        ticks = figures["anchormoe_loop_delay_seconds_bucket"]
        assert ticks[(("le", "0.1"),)] > PROMPT * ticks[(("le", "+Inf"),)]

        redis.kill()
        wait_for(lambda: client.get("/readyz").status_code == 503)
        answer = client.get("/readyz").json()
        assert answer["checks"]["store"] == {"ok": False, "detail": "the store does not answer"}
        assert client.get("/livez").status_code == 200
        redis.start()
        wait_for(lambda: client.get("/readyz").status_code == 200)


@pytest.mark.slow
def test_sigterm_ends_agent_and_pages_in_order(
    kafka: Broker, redis_factory: RedisFactory, topic_name: str, bundle: Path, closing: Closing
) -> None:
    kafka.create_topic(topic_name, 1)
    redis = redis_factory("redis")
    agent = closing(Agent(bundle, bootstrap=kafka.bootstrap, topic=topic_name, redis=redis.url, port=0))
    agent.launch()
    agent.process.wait_until(lambda: agent.url is not None and agent.answer("/readyz").is_success, 180)
    agent.process.end(signal.SIGTERM)
    text = agent.process.log.read_text()
    assert text.splitlines()[-2:] == ["0 records, 0 windows; events: none; dead letters: none", "exit code 0"]
    assert "Traceback" not in text


def test_a_taken_port_ends_the_run_before_anything_is_connected(bundle: Path, closing: Closing) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        agent = closing(Agent(bundle, bootstrap="127.0.0.1:1", topic="t", redis="redis://127.0.0.1:1/0", port=port))
        agent.launch()
        wait_for(lambda: agent.process.pid is None)
    assert agent.last_words() == [
        f"error: http.port: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another port, or 0 for any free one",
        "exit code 75",
    ]


@pytest.mark.slow
async def test_a_restart_of_the_consumer_loses_nothing_and_repeats_nothing(kafka: Broker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    source = KafkaSource(Cluster(kafka.bootstrap), Subscription((topic_name,), f"group-{topic_name}"))
    sink, stop = MemorySink(), asyncio.Event()
    agent = pipeline(source, sink=sink)

    async def read(records: int) -> None:
        async with asyncio.timeout(180):
            while agent.counters.records < records or agent.progress.queued_batches:  # noqa: ASYNC110  # plain values
                await asyncio.sleep(0.02)

    async def restart_between_two_halves() -> None:
        await send(kafka.bootstrap, topic_name, range(41))
        await read(41)
        agent.restart_source()
        await send(kafka.bootstrap, topic_name, range(41, 81))
        await read(81)
        stop.set()

    await run_with_helpers(agent.run(stop), [restart_between_two_halves()])
    ids = [dict(message.headers)["ce_id"] for message in sink.of(EVENTS)]
    assert len(ids) == len(set(ids)) == 20
    assert {owned.epoch for owned in agent.status.partitions.values()} == {2}


async def send(bootstrap: str, topic: str, steps: range) -> None:
    """What `small_plant` understands."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for step in steps:
        at = START_MS + step * 1000
        await producer.send_and_wait(topic, orjson.dumps({"ts": at, "p": 1.0}), key=b"pump-1", timestamp_ms=at)
    await producer.stop()


@pytest.mark.slow
def test_a_broker_that_stops_answering_ends_the_agent_with_one_line(
    kafka_factory: KafkaFactory, redis_factory: RedisFactory, topic_name: str, bundle: Path, closing: Closing
) -> None:
    broker, redis = kafka_factory(), redis_factory("redis")
    broker.create_topic(topic_name, 1)
    agent = closing(Agent(bundle, bootstrap=broker.bootstrap, topic=topic_name, redis=redis.url, port=0))
    agent.launch()
    agent.process.wait_until(lambda: agent.url is not None and agent.answer("/readyz").is_success, 180)
    stopped = broker.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    try:
        wait_for(lambda: agent.process.pid is None, 120)
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert "no progress; restarting the source" in [line["event"] for line in agent.lines()]
    error, code = agent.last_words()
    assert error.startswith("error: ")
    assert code == "exit code 1"
