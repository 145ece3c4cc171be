"""Published events on a real broker: valid by the written contract, read by strangers, by our reader and by tail."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary
from cloudevents.core.formats.json import JSONFormat

from agent.client import read_events
from agent.contracts import ExplainedEvent, ExplainedEventV1, ReceivedEvent
from connectors.errors import ConnectorError
from connectors.kafka import background_reader
from connectors.kafka.cluster import Cluster
from connectors.kafka.reader import TopicReader
from connectors.kafka.sink import Delivery, KafkaSink
from connectors.records import DEAD_LETTERS, EVENTS, STATES, Message
from tests.conftest import KafkaFactory
from tests.support.event_samples import samples
from tests.support.event_sums import require_exact_sums
from tests.support.services.kafka import Broker
from tests.support.tls_connections import connections_closed

LIMIT_S = 3.0  # one second by our own clocks; a busy machine may need the rest
REPOSITORY = Path(__file__).parents[2]
CONTRACTS = REPOSITORY / "docs" / "contracts"
PLANT = """\
namespace: hall
source: {{kind: simulator, assets: [{{id: pump-1, kind: pump}}]}}
groups: [{{name: pumps, assets: [pump-1], model: {{bundle: bundle}}}}]
sinks: [{{kind: kafka, bootstrap: "{bootstrap}", topics: {{events: {topic}, states: s, dead_letters: d}}}}]
"""


class World:
    """A broker with a topic of two partitions, and who writes to it."""

    def __init__(self, kafka: Broker, topic: str) -> None:
        self.kafka, self.topic = kafka, topic
        self.topics = {EVENTS: topic, STATES: f"{topic}-states", DEAD_LETTERS: f"{topic}-dead"}
        kafka.create_topic(topic, 2)

    async def publish(self, messages: Sequence[Message], cluster: Cluster | None = None) -> None:
        sink = KafkaSink(cluster or Cluster(self.kafka.bootstrap), Delivery(self.topics))
        await sink.start()
        try:
            await sink.write(messages)
        finally:
            await sink.close()

    def read(self, **options: Any) -> AsyncGenerator[ReceivedEvent, None]:
        given: dict[str, Any] = {"topic": self.topic} | options
        return read_events(self.kafka.bootstrap, **given)

    async def stored(self, stream: str, count: int) -> list[Any]:
        where = {"bootstrap_servers": self.kafka.bootstrap, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(self.topics[stream], **where) as consumer, asyncio.timeout(120):
            return [await consumer.getone() for _ in range(count)]


@pytest.fixture(autouse=True)
def _time_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handled is committed, however busy the machine is; how soon a reader leaves is a test of its own."""
    monkeypatch.setattr(background_reader, "_CLOSE_S", 60.0)
    monkeypatch.setattr(background_reader, "_LEAVE_S", 61.0)


@pytest.fixture
def world(kafka: Broker, topic_name: str) -> World:
    return World(kafka, topic_name)


def ids(messages: Sequence[Message]) -> list[str]:
    return [dict(message.headers)["ce_id"].decode() for message in messages]


def of_asset(asset: str) -> list[Message]:
    return [message for message in samples().events if message.key == asset.encode()]


async def taken(events: AsyncGenerator[ReceivedEvent, None], count: int) -> list[ReceivedEvent]:
    found: list[ReceivedEvent] = []
    async with asyncio.timeout(120), aclosing(events):
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def all_within(
    events: AsyncGenerator[ReceivedEvent, None], at_least: int = 1, *, quiet_s: float = 2.0
) -> list[ReceivedEvent]:
    """Everything until nothing comes for a while; so many are waited for longer, until there is nobody to wait for."""
    found: list[ReceivedEvent] = []
    async with aclosing(events):
        while True:
            try:
                found.append(await asyncio.wait_for(anext(events), quiet_s if len(found) >= at_least else 60))
            except TimeoutError:
                return found


async def test_events_on_the_broker_fit_the_written_schema_and_an_independent_reader(world: World) -> None:
    await world.publish(samples().events)
    schema = json.loads((CONTRACTS / "event.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    expected = {dict(message.headers)["ce_id"].decode(): message for message in samples().events}
    for record in await world.stored(EVENTS, len(samples().events)):
        event = from_binary(KafkaMessage(dict(record.headers), record.key, record.value), JSONFormat())
        data = event.get_data()
        assert isinstance(data, dict)
        validator.validate(data)
        assert event.get_specversion() == "1.0"
        assert event.get_dataschema() == schema["$id"]
        assert event.get_datacontenttype() == "application/json"
        assert event.get_subject() == data["asset"] == record.key.decode()
        assert event.get_type() == f"anchormoe.{data['type']}"
        assert expected.pop(event.get_id()).value == record.value
        if data.get("evidence"):
            require_exact_sums(data)
    assert not expected


async def test_a_topic_with_events_of_both_versions_is_read_by_one_reader(world: World) -> None:
    stored = json.loads((REPOSITORY / "tests/unit/agent/contracts/version_1_events.json").read_text())
    old = [
        Message(
            EVENTS,
            one["data"]["asset"].encode(),
            json.dumps(one["data"]).encode(),
            tuple((name, text.encode()) for name, text in one["headers"].items()),
        )
        for one in stored
    ]
    fresh = [message for message in samples().events if dict(message.headers)["ce_type"] == b"anchormoe.state"]
    new = [message for message in fresh if ids([message])[0] not in ids(old)]
    await world.publish([*old, *new])
    found = await all_within(world.read(), len(old) + len(new))
    assert sorted(event.id for event in found) == sorted(ids([*old, *new]))
    kinds = {type(event.data) for event in found if event.type == "state"}
    assert kinds == {ExplainedEvent, ExplainedEventV1}
    assert all((event.text is None) == isinstance(event.data, ExplainedEventV1) for event in found if event.state)


async def test_states_and_dead_letters_on_the_broker_fit_their_contract(world: World) -> None:
    world.kafka.create_topic(world.topics[STATES], 1, {"cleanup.policy": "compact"})
    world.kafka.create_topic(world.topics[DEAD_LETTERS])
    letters = [letter.message for letter in samples().dead_letters]
    await world.publish([*samples().states, *letters])
    schema = json.loads((CONTRACTS / "state.schema.json").read_text())
    for record in await world.stored(STATES, len(samples().states)):
        jsonschema.validate(json.loads(record.value), schema)
    document = json.loads((CONTRACTS / "asyncapi.json").read_text())
    headers = document["components"]["schemas"]["DeadLetterHeaders"]
    for record in await world.stored(DEAD_LETTERS, len(letters)):
        jsonschema.validate({name: value.decode() for name, value in record.headers}, headers)


async def test_repeated_events_are_read_once_in_order_per_asset(world: World) -> None:
    await world.publish(samples().events)
    await world.publish(samples().events[10:])
    found = await all_within(world.read(), len(samples().events))
    assert sorted(event.id for event in found) == sorted(ids(samples().events))
    for asset in ("pump-1", "pümp-2"):
        assert [event.id for event in found if event.asset == asset] == ids(of_asset(asset))


async def test_assets_and_states_are_chosen(world: World) -> None:
    await world.publish(samples().events)
    found = await all_within(world.read(assets=["pump-*"], states={"a"}))
    assert {(event.asset, event.state) for event in found} == {("pump-1", "a")}
    assert all(isinstance(event.data, ExplainedEvent) for event in found)


async def test_from_the_latest_only_what_comes_next_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.publish(samples().events[:5])
    begins, take = threading.Event(), TopicReader.take

    async def told(self: TopicReader, partitions: Collection[TopicPartition]) -> None:
        await take(self, partitions)
        begins.set()

    monkeypatch.setattr(TopicReader, "take", told)
    waiting = asyncio.create_task(taken(world.read(start="latest"), 1))
    assert await asyncio.to_thread(begins.wait, 120)
    await world.publish(samples().events)  # a repeat of something before the start stays a repeat
    assert (await waiting)[0].id not in ids(samples().events[:5])


async def test_from_a_time_what_was_published_since_is_read(world: World) -> None:
    await world.publish(samples().events[:5])
    await asyncio.sleep(0.05)
    between = datetime.now(tz=UTC)
    await asyncio.sleep(0.05)
    await world.publish(samples().events[5:9])
    found = await all_within(world.read(start=between), 4)
    assert sorted(event.id for event in found) == sorted(ids(samples().events[5:9]))
    in_an_hour = between + timedelta(hours=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await anext(world.read(start=in_an_hour))


async def test_a_group_goes_on_behind_the_last_handled_event_and_still_knows_the_repeats(world: World) -> None:
    events = of_asset("pump-1")
    await world.publish(events[:10])
    first = await taken(world.read(group=f"g-{world.topic}"), 4)
    assert [event.id for event in first] == ids(events[:4])
    await world.publish(events)
    second = await taken(world.read(group=f"g-{world.topic}"), len(events) - 3)
    assert [event.id for event in second] == ids(events[3:])  # the fourth was not handled: the loop was left in it


async def test_a_reader_that_keeps_positions_itself_goes_on_behind_them(world: World) -> None:
    await world.publish(samples().events)
    first = await taken(world.read(), 20)
    behind = {event.partition: event.offset for event in first}
    second = await all_within(world.read(after=behind), len(samples().events) - 20)
    assert sorted(event.id for event in [*first, *second]) == sorted(ids(samples().events))


async def test_a_new_group_starts_with_the_oldest_event_and_later_resumes(world: World) -> None:
    """Also when `start` says otherwise by then: a group that has committed goes on where it stopped."""
    events = of_asset("pump-1")
    await world.publish(events)
    group = f"g-{world.topic}"
    assert [event.id for event in await taken(world.read(group=group), 2)] == ids(events[:2])
    assert [event.id for event in await taken(world.read(group=group, start="latest"), 1)] == ids(events[1:2])


@pytest.mark.parametrize(("leave", "last_line"), [("break", ""), ("raise ValueError('left')", "ValueError: left")])
async def test_leaving_the_loop_ends_within_a_second_and_leaves_the_group(
    world: World, leave: str, last_line: str
) -> None:
    await world.publish(samples().events)
    program = f"""
import asyncio, sys, time
from agent.client import read_events

async def main():
    global left
    async for event in read_events({world.kafka.bootstrap!r}, topic={world.topic!r}, group="left-{world.topic}"):
        left = time.monotonic()
        print("leaving", file=sys.stderr)
        {leave}

try:
    asyncio.run(main())
finally:
    import atexit
    atexit._run_exitfuncs()
    print(time.monotonic() - left)
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=180, cwd=REPOSITORY)
    assert float(done.stdout) < LIMIT_S, done.stderr
    said = done.stderr.partition("leaving\n")[2]  # a new broker's first group has a warning of aiokafka before
    assert (said.splitlines() or [""])[-1] == last_line
    assert said.count("Error") == last_line.count("Error"), said
    async with asyncio.timeout(5):  # it is thrown out after ten
        while await asyncio.to_thread(members, world, f"left-{world.topic}"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def members(world: World, group: str) -> int:
    [answer] = world.kafka.call_admin(lambda admin: admin.describe_consumer_groups([group]))
    return sum(len(each[5]) for each in answer.groups)


async def test_a_reader_whose_loop_is_blocked_stays_in_its_group(world: World) -> None:
    """Handlers often block (an HTTP request, a database); the group must not take the partitions away for that."""
    await world.publish(of_asset("pump-1"))
    group = f"g-{world.topic}"
    async with asyncio.timeout(180), aclosing(world.read(group=group)) as events:
        await anext(events)
        time.sleep(12)  # noqa: ASYNC251  # aiokafka's session time-out is 10 s
        assert await asyncio.to_thread(members, world, group) == 1
        assert (await anext(events)).id == ids(of_asset("pump-1"))[1]


@pytest.mark.slow
async def test_two_members_of_a_group_share_the_events_and_lose_none(world: World) -> None:
    spread = [replace(message, key=b"%d" % at) for at, message in enumerate(samples().events)]
    found: list[list[str]] = [[], []]
    complete = asyncio.Event()

    async def collect(place: int) -> None:
        async with aclosing(world.read(group=f"g-{world.topic}")) as events:
            async for event in events:
                found[place].append(event.id)
                if {*found[0], *found[1]} == set(ids(spread)):
                    complete.set()

    async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
        members = [tasks.create_task(collect(place)) for place in (0, 1)]
        for at in range(0, len(spread), 4):
            await world.publish(spread[at : at + 4])
            await asyncio.sleep(0.2)
        await complete.wait()
        for member in members:
            member.cancel()
    assert all(found)
    assert all(len(set(part)) == len(part) for part in found)


async def test_what_is_no_event_is_logged_and_skipped(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.publish([Message(EVENTS, b"pump-1", b"hello"), *of_asset("pump-1")[:1]])
    assert [event.id for event in await taken(world.read(), 1)] == ids(of_asset("pump-1")[:1])
    assert "@0 skipped: header 'ce_type' is missing" in caplog.text


async def test_a_topic_that_is_not_there_is_named(kafka: Broker) -> None:
    with pytest.raises(ConnectorError, match=r"cannot read no-such-topic at .*: there is no such topic"):
        await taken(read_events(kafka.bootstrap, topic="no-such-topic"), 1)


async def test_a_broker_that_is_not_there_is_named() -> None:
    with pytest.raises(ConnectorError, match=r"cannot read events at 127\.0\.0\.1:9"):
        await taken(read_events("127.0.0.1:9"), 1)


@pytest.mark.slow
async def test_events_are_read_over_tls_with_a_login(kafka_factory: KafkaFactory, topic_name: str) -> None:
    broker = kafka_factory(users={"reader": "secret"})
    world = World(broker, topic_name)
    cluster = Cluster(
        broker.sasl_tls_bootstrap,
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-256",
        username="reader",
        password="secret",
        ca_file=str(broker.authority.certificate),
    )
    await world.publish(samples().events[:3], cluster)
    found = await taken(read_events(cluster, topic=world.topic, group="g"), 3)
    assert sorted(event.id for event in found) == sorted(ids(samples().events[:3]))
    await connections_closed()


def command(*arguments: str) -> list[str]:
    """The console script, which says at its end whether torch was needed."""
    script = (
        "import sys\nfrom agent.cli.main import main\ntry:\n    main()\n"
        "finally:\n    print('torch' in sys.modules, file=sys.stderr)"
    )
    return [sys.executable, "-c", script, *arguments]


def plant(world: World, folder: Path) -> str:
    path = folder / "plant.yaml"
    path.write_text(PLANT.format(bootstrap=world.kafka.bootstrap, topic=world.topic))
    return str(path)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=180, cwd=REPOSITORY)


async def test_tail_prints_json_lines_that_are_cloudevents_and_needs_no_torch(world: World, tmp_path: Path) -> None:
    await world.publish(samples().events)
    options = ("--json", "--from-beginning", "--for", "4s", "--asset", "pump-1")
    done = await asyncio.to_thread(run, "tail", "--config", plant(world, tmp_path), *options)
    assert done.returncode == 0, done.stderr
    events = [JSONFormat().read(None, line) for line in done.stdout.splitlines()]
    assert [event.get_id() for event in events] == ids(of_asset("pump-1"))
    assert done.stderr.endswith("Ctrl-C stops\nFalse\n")


async def test_tail_tells_events_to_people_and_ends_cleanly_with_ctrl_c(world: World, tmp_path: Path) -> None:
    await world.publish(samples().events)
    arguments = command("tail", "--config", plant(world, tmp_path), "--since", "10m", "--state", "b")
    lines, code, said = await asyncio.to_thread(lines_of, arguments, 6)
    assert " → b  p=0." in lines[0]
    assert lines[-1].lstrip().startswith("context ")
    assert (code, "Traceback" in said) == (0, False), said


async def test_the_example_consumer_runs(world: World) -> None:
    await world.publish(samples().events)
    arguments = [sys.executable, "examples/consumer.py", world.kafka.bootstrap, world.topic]
    [line], _, _ = await asyncio.to_thread(lines_of, arguments, 1)
    _, _, asset, state, *_ = line.split()
    assert asset in ("pump-1", "pümp-2")
    assert state in ("a", "b", "unknown")


def lines_of(arguments: list[str], count: int) -> tuple[list[str], int, str]:
    """The first lines of a program that is then interrupted, its exit code and what it said on stderr."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, cwd=REPOSITORY, **pipes) as process:
        try:
            lines = [process.stdout.readline() for _ in range(count)]  # type: ignore[union-attr]
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    return lines, process.returncode, said
