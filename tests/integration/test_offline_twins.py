"""The offline commands against what a live agent did on a real broker and a real Redis."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from agent import app
from agent.app import build_pipeline
from agent.cli.main import main
from agent.health.counters import Counters
from agent.runtime.instruments import Instruments
from connectors.files.rows import to_log_line
from connectors.kafka.bounded import BoundedKafkaSource
from connectors.kafka.cluster import Cluster
from connectors.kafka.producer import RecordProducer
from connectors.records import Record, RecordLike
from tests.support.offline_plant import load_offline_plant, load_rule, records, write_plant
from tests.support.services.kafka import Broker
from tests.support.services.redis import RedisClients

SECONDS = 120
BROKEN = SECONDS * 2 // 17
Command = Callable[..., tuple[int, str]]
"""Arguments of the command line to exit code and stdout."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Runs a command line in this process with a rule instead of a model: exit code and stdout."""
    monkeypatch.setattr(app, "model_loader", lambda settings: load_rule)
    monkeypatch.setattr("agent.logs.set_up_logs", lambda *_, **__: None)  # would take pytest's own handlers away

    def call(*arguments: str | Path) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["anchormoe-agent", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        return code, capsys.readouterr().out

    with capture_logs():
        yield call


def kafka_plant(directory: Path, kafka: Broker, topic: str, **sections: Any) -> Path:
    source = {"kind": "kafka", "bootstrap": kafka.bootstrap, "topics": [topic]}
    topics = {name: f"{topic}-{name}" for name in ("events", "states", "dead_letters")}
    return write_plant(directory, source=source, sinks=[{"kind": "kafka", "topics": topics}], **sections)


async def fill(kafka: Broker, topic: str, given: list[Record]) -> None:
    kafka.create_topic(topic, 2)
    for name in ("events", "states", "dead_letters"):
        kafka.create_topic(f"{topic}-{name}", 1)
    writer = RecordProducer(Cluster(kafka.bootstrap))
    await writer.start()
    await writer.write(topic, given)
    await writer.close()


async def live(path: Path, count: int) -> Counters:
    """An agent on its own until it has read everything."""
    instruments, stop = Instruments(), asyncio.Event()
    tally = instruments.counters
    pipeline = build_pipeline(load_offline_plant(path), instruments=instruments, load_model=load_rule)

    async def watch() -> None:
        while tally.records < count:  # noqa: ASYNC110  # a tally has no event to wait for
            await asyncio.sleep(0.05)
        stop.set()

    async with asyncio.timeout(180), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await pipeline.run(stop)
    return tally


def test_replay_gives_what_the_live_agent_published_and_windows_can_be_looked_at(
    kafka: Broker, redis_server: RedisClients, topic_name: str, key_prefix: str, tmp_path: Path, command: Command
) -> None:
    store = {"kind": "redis", "url": redis_server.url, "key_prefix": key_prefix}
    plant = kafka_plant(tmp_path, kafka, topic_name, store=store)
    given = records(SECONDS)
    asyncio.run(fill(kafka, topic_name, given))
    tally = asyncio.run(live(plant, len(given)))
    assert tally.events["state"] > 20

    code, said = command("replay", "-c", plant, "--input", "kafka", "--compare", f"kafka:{topic_name}-events", "--json")
    summary = json.loads(said)
    assert summary["comparison"] | {"equal": 0} == {
        "same": True,
        "equal": 0,
        "missing": [],
        "extra": [],
        "different": [],
        "model_digests": {"replayed": [], "published": []},
    }
    by_the_log = sum(count for kind, count in tally.events.items() if kind != "no_data")
    assert summary["comparison"]["equal"] == by_the_log
    assert (code, summary["records"], summary["dead_letters"]) == (0, len(given), {"not_json": BROKEN})

    for first in ("60", given[150 * 2 // 3].timestamp):
        begin = first if isinstance(first, str) else datetime.fromtimestamp(first / 1000, UTC).isoformat()
        options = ("--from", begin, "--compare", "kafka", "--json")
        code, said = command("replay", "-c", plant, "--input", "kafka", *options)
        part = json.loads(said)
        assert (code, part["comparison"]["same"]) == (0, True)
        assert 0 < part["comparison"]["equal"] < summary["comparison"]["equal"]
        assert part["records_before"] > 0

    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(b"".join(map(to_log_line, given)))
    outs = [tmp_path / "one", tmp_path / "two"]
    for out in outs:
        assert command("replay", "-c", plant, "-i", copy, "--out", out, "--compare", "kafka")[0] == 0
    assert (outs[0] / "events.jsonl").read_bytes() == (outs[1] / "events.jsonl").read_bytes() != b""

    code, said = command("windows", "list", "-c", plant, "--json")
    listed = {each["asset"]: each for each in json.loads(said)}
    assert (code, sorted(listed)) == (0, ["pump-1", "pump-2"])
    assert {each["topic"] for each in listed.values()} == {topic_name}
    assert {each["state"] for each in listed.values()} <= {"low", "high"}
    code, said = command("windows", "show", "pump-1", "-c", plant)
    assert code == 0
    assert "flow  " in said
    assert "of the last 4 steps" in said
    assert command("windows", "show", "pump-9", "-c", plant)[0] == 1


def test_a_published_set_that_differs_is_told_and_fails(
    kafka: Broker, topic_name: str, tmp_path: Path, command: Command
) -> None:
    plant = kafka_plant(tmp_path, kafka, topic_name)
    given = records(SECONDS)
    asyncio.run(fill(kafka, topic_name, given))
    out = tmp_path / "out"
    assert command("replay", "-c", plant, "--out", out)[0] == 0
    lines = (out / "events.jsonl").read_bytes().splitlines(keepends=True)
    (out / "events.jsonl").write_bytes(b"".join([lines[0].replace(b'"coverage":', b'"coverage":1'), *lines[2:]]))
    code, said = command("replay", "-c", plant, "--compare", out, "--json")
    compared = json.loads(said)["comparison"]
    assert code == 1
    assert (len(compared["missing"]), compared["extra"], compared["equal"]) == (1, [], len(lines) - 2)
    assert compared["different"][0]["fields"] == ["window.coverage"]


def test_dead_letters_are_listed_shown_corrected_and_replayed_once(
    kafka: Broker, topic_name: str, tmp_path: Path, command: Command
) -> None:
    plant = kafka_plant(tmp_path, kafka, topic_name)
    given = records(SECONDS)
    asyncio.run(fill(kafka, topic_name, given))
    asyncio.run(live(plant, len(given)))
    code, said = command("dead-letters", "list", "-c", plant, "--json")
    assert code == 0
    assert json.loads(said)["not_json"]["count"] == BROKEN
    code, said = command("dead-letters", "show", "0:0", "-c", plant)
    assert code == 0
    assert "header own: 1" in said
    assert command("dead-letters", "show", "0:999", "-c", plant)[0] == 1

    repaired = tmp_path / "repaired.jsonl"
    value = {"ts": given[-1].timestamp, "flow": 1, "pressure": 1}
    repaired.write_bytes(orjson.dumps({"offset": 0, "value": value}))
    send = ("dead-letters", "replay", "-c", plant, "--edit", repaired, "--json")
    tried = json.loads(command(*send, "--dry-run")[1])
    assert (tried["replayed"], tried["replayable"], sum(tried["skipped"].values())) == (0, 1, BROKEN - 1)
    assert json.loads(command(*send)[1])["replayed"] == 1
    found = asyncio.run(everything(kafka, topic_name))
    assert len(found) == len(given) + 1
    [again] = [record for record in found if ("dl_replayed", b"1") in record.headers]
    assert (again.value, again.timestamp) == (orjson.dumps(value), given[16].timestamp)
    assert (again.key, again.headers[0]) == (given[16].key, ("own", b"1"))
    twice = json.loads(command(*send)[1])
    assert (twice["replayed"], twice["skipped"]["already replayed; --force replays it again"]) == (0, 1)
    assert json.loads(command(*send, "--force")[1])["replayed"] == 1


async def everything(kafka: Broker, topic: str) -> list[RecordLike]:
    source = BoundedKafkaSource(Cluster(kafka.bootstrap), [topic])
    await source.open()
    found: list[RecordLike] = []
    while not source.exhausted:
        for batch in await source.poll(max_records=1000, timeout_s=1):
            found += batch.records
    await source.close()
    return found


def test_a_simulated_stream_in_kafka_is_the_one_in_a_file(
    kafka: Broker, topic_name: str, tmp_path: Path, command: Command
) -> None:
    plant = kafka_plant(tmp_path, kafka, topic_name)
    kafka.create_topic(topic_name, 2)
    same = ("--asset", "pump-1=pump", "--for", "30s", "--seed", "4", "--start", "2026-11-01T00:00:00Z")
    truth = tmp_path / "truth.jsonl"
    assert command("simulate", "stream", "-c", plant, "--to", "kafka", "--truth", truth, *same)[0] == 0
    assert command("simulate", "stream", "-c", plant, "--to", tmp_path / "s.jsonl", *same)[0] == 0
    in_kafka = asyncio.run(everything(kafka, topic_name))
    in_file = (tmp_path / "s.jsonl").read_bytes().splitlines(keepends=True)
    assert [to_log_line(record) for record in in_kafka] == in_file
    states = [json.loads(line) for line in truth.read_text().splitlines()]
    assert (states[0]["start"], states[-1]["end"]) == ("2026-11-01T00:00:00Z", "2026-11-01T00:00:30Z")
    assert {each["asset"] for each in states} == {"pump-1"}
