"""Whatever stands in the alarm inputs, the events or the present alarms: counted, told, and the next one is used."""

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.alarms.core.inputs import Tick, encode_input
from agent.alarms.counters import AlarmCounters
from agent.alarms.received import parse_alarm, parse_audit, parse_transition
from agent.alarms.webhooks import AlarmDelivery, AlarmReceiver, AlarmSender
from agent.alarms.worker.app import AlarmWorker
from agent.alarms.worker.consoles import AppliedInput, ConsoleWorker
from agent.alarms.worker.recovery import restore_console
from agent.alarms.worker.settings import WorkerSettings
from connectors.errors import ConnectorError, RecordError
from connectors.kafka.cluster import Cluster
from connectors.records import Partition, Record
from connectors.webhook import Receiver
from tests.support.alarm_log import PRESENT_ALARM, at, catalogue, command, event, rule, technical
from tests.support.event_samples import samples

BROKER_LIMIT = 1_048_576
PLANT = catalogue(
    rule(min_evidence_share=0.1),
    rule("lag", technical="agent_lag", limit_ns=10),
    rule("lost", technical="channel_dropout"),
    rule("silent", technical="no_data", limit_ns=10**9),
)
SPAN = {"start": "a", "end": "b", "contribution": 2.5, "channels": ["flow"], "share": 0.9, "expert": "kernel"}
EVIDENCE = {"class": "worn", "supporting": 3.0, "opposing": -1.0, "spans": [SPAN]}
SEEDS = [
    encode_input(event(1, 0.9, published="2023-11-14T22:13:30Z")),
    encode_input(event(1.5, 0.9, evidence=EVIDENCE, text="flow 3 against 5 normal")),
    encode_input(technical(2, "channel_dropout", channel="flow")),
    encode_input(command(3, "ack")),
    encode_input(command(4, "shelve", until=60)),
    encode_input(Tick(at(5))),
]
VALUES: list[Any] = [None, True, 0, -1, 1e308, 2**63, 2**64 - 1, "", "x", [], {}, [[]], ["a"], {"a": ["b"]}]
VALUES += ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2300-01-01T00:00:00Z", "\x1f", "a\nb", "\x1b[2J", "\u202e"]
VALUES += ["x" * 3000, "state", "channel_dropout", "ack", "event", "command", "tick"]
VALUES += [{"supporting": "x"}, {"patches": [1]}, {"patches": [{"contribution": None}]}]
VALUES += [{"spans": [1]}, {"spans": [{"contribution": 1.0, "channels": [1]}]}, {"spans": {}}]
HEADERS = [b"", b"\xff", b"9999-12-31T23:59:59Z", b"anchormoe.later", b"x" * 9000, b"a\x1fb"]


def mutate(document: Any, chance: random.Random) -> Any:
    """The document with another value somewhere: of another type, hostile, missing, or wrapped."""
    if isinstance(document, dict) and document and chance.random() < 0.8:
        name = chance.choice(sorted(document))
        changed = {**document, name: mutate(document[name], chance)}
        if chance.random() < 0.1:
            changed.pop(name)
        return changed
    return chance.choice(VALUES)


def hostile(seeds: list[bytes], seed: int, count: int) -> Iterator[bytes]:
    """Half of them documents with other types, half of them bytes that were changed, cut or doubled."""
    chance = random.Random(seed)
    for _ in range(count):
        raw = chance.choice(seeds)
        if chance.random() < 0.6:
            document = orjson.loads(raw)
            for _ in range(chance.randint(1, 3)):
                document = mutate(document, chance) if isinstance(document, dict) else document
            yield orjson.dumps(document)
        else:
            noisy = bytearray(raw)
            for _ in range(chance.randint(1, 4)):
                noisy[chance.randrange(len(noisy))] = chance.randrange(256)
            yield bytes(noisy[: chance.choice([len(noisy), chance.randrange(len(noisy))])])


def check_applied(applied: AppliedInput, table: dict[bytes, bytes]) -> None:
    for message in applied.messages:
        assert len(message.value or b"") < BROKER_LIMIT
    for key, value in applied.rows:
        assert len(value or b"") < BROKER_LIMIT
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


@pytest.mark.parametrize("seed", range(20))
def test_no_input_stops_the_console_and_every_refused_one_is_in_the_audit(seed: int) -> None:
    table: dict[bytes, bytes] = {}
    worker = ConsoleWorker(PLANT, lambda: table.items())
    for offset, raw in enumerate(hostile(SEEDS, seed, 150)):
        before = worker.ignored.total()
        applied = worker.take(b"hall", raw, offset, -1)
        check_applied(applied, table)
        if not applied.rows:
            (told,) = applied.messages
            entry = parse_audit(told.value)
            assert (entry["outcome"], entry["input"]) == ("refused", f"offset {offset}")
            assert worker.ignored.total() == before + 1
    assert worker.ignored["internal"] == 0
    restored = restore_console("hall", table.items())  # what was written can be read again
    assert restored.console.alarms == {one.id: one for console in worker.consoles for one in console.alarms.values()}


@settings(max_examples=200, deadline=None)
@given(
    raw=st.binary(max_size=200), key=st.one_of(st.none(), st.binary(max_size=40)), written=st.integers(-(2**80), 2**80)
)
def test_raw_bytes_keys_and_timestamps_of_any_kind_are_refused_in_order(
    raw: bytes, key: bytes | None, written: int
) -> None:
    worker = ConsoleWorker(PLANT, lambda: ())
    for name in (key, b"hall"):
        applied = worker.take(name, raw, 0, written)
        assert [parse_audit(one.value)["outcome"] for one in applied.messages] == ["refused"]


@pytest.mark.parametrize(
    "raw",
    [
        b"x" * 2_000_000,
        b'{"kind":"tick","time":"' + b"9" * 500_000 + b'"}',
        b'{"kind":"event","time":"2023-11-14T22:13:30Z","data":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"kind":"event","time":"2023-11-14T22:13:30Z","end":"2023-11-14T22:13:30Z","id":"a","type":"state","asset":"pump-1",'
        b'"group":"pumps","data":{"window":' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}}",
        b'{"kind":"' + b"k" * 400_000 + b'","time":"2023-11-14T22:13:30Z"}',
    ],
)
def test_huge_and_deep_inputs_are_refused_with_a_short_reason(raw: bytes) -> None:
    applied = ConsoleWorker(PLANT, lambda: ()).take(b"hall", raw, 7, 2**63)
    (told,) = applied.messages
    assert len(told.value or b"") < 2_000
    assert parse_audit(told.value)["outcome"] == "refused"


def test_a_console_of_a_megabyte_is_named_shortly() -> None:
    applied = ConsoleWorker(PLANT, lambda: ()).take(b"\x1b" * 1_000_000, b"{}", 7, 0)
    assert len(applied.messages[0].value or b"") < 2_000


def test_inputs_that_all_fail_in_our_own_code_end_the_worker_instead_of_emptying_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("agent.alarms.worker.consoles.step", fail)
    worker, offsets = ConsoleWorker(PLANT, lambda: ()), iter(range(1000))
    for _ in range(19):
        applied = worker.take(b"hall", SEEDS[0], next(offsets), 0)
        assert parse_audit(applied.messages[0].value)["reason"] == "failed: ZeroDivisionError"
    with pytest.raises(ConnectorError, match="20 inputs in a row failed"):
        worker.take(b"hall", SEEDS[0], next(offsets), 0)


@pytest.fixture(scope="module")
def copier(tmp_path_factory: pytest.TempPathFactory) -> AlarmWorker:
    directory = tmp_path_factory.mktemp("faust")
    made = WorkerSettings("alarms-test", Cluster("127.0.0.1:1"), "events", directory=directory, namespace="plant-1")
    return AlarmWorker(made, PLANT)


def as_faust(value: bytes | None, headers: Any, timestamp: float = 1.7e9) -> Any:
    return SimpleNamespace(
        topic="events", partition=0, offset=5, key=b"pump-1", value=value, headers=headers, timestamp=timestamp
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_event_stops_the_copying_and_what_is_copied_is_a_valid_input(copier: AlarmWorker, seed: int) -> None:
    chance, own = random.Random(seed), b"/anchormoe-agent/plant-1"
    models, refused = samples().events[:40], list[str]()
    for raw in hostile([one.value for one in models if one.value], seed, 100):
        headers = {**dict(chance.choice(models).headers), "ce_source": own}
        if chance.random() < 0.5:
            broken = chance.choice(sorted(headers))
            headers[broken] = chance.choice(HEADERS)
        message = as_faust(raw, headers, chance.choice([1.7e9, -0.001, 9.2e15, 0.0]))
        try:
            copied = copier._to_input(message)
        except RecordError as error:
            refused.append(error.reason)
            continue
        if copied is not None:
            key, value = copied
            table: dict[bytes, bytes] = {}
            applied = ConsoleWorker(PLANT, lambda: ()).take(key, value, 1, 0)
            assert applied.rows, "the state machine refuses what the copier made"
            check_applied(applied, table)
    assert refused
    assert "internal" not in refused


def test_events_of_another_namespace_are_counted_and_left_alone(copier: AlarmWorker) -> None:
    one = samples().events[0]
    foreign = {**dict(one.headers), "ce_source": b"/anchormoe-agent/plant-2"}
    before = copier.counters.ignored["other_namespace"]
    assert copier._to_input(as_faust(one.value, foreign)) is None
    assert copier.counters.ignored["other_namespace"] == before + 1


@pytest.mark.parametrize("form", ["alertmanager", "generic"])
def test_a_foreign_record_in_the_alarms_topic_is_left_out_and_the_alarm_behind_it_is_sent(
    form: Literal["alertmanager", "generic"],
) -> None:
    counters = AlarmCounters()
    to = AlarmReceiver("hook", Receiver("http://127.0.0.1:9/x"), format=form)
    delivery = AlarmDelivery(to, "plant-1", counters)
    sender = AlarmSender(Cluster("127.0.0.1:1"), "alarms", "group", to, delivery, counters)
    for offset, raw in enumerate([*hostile([orjson.dumps(PRESENT_ALARM)], 1, 1000), orjson.dumps(PRESENT_ALARM)]):
        sender._add(Partition("alarms", 0), Record(offset, 0, b"k", raw, ()))
    assert sender._firing["wear:pump-1"].offset == 1000
    assert delivery.payload([one.alarm for one in sender._firing.values()])
    assert counters.webhooks["hook", "unusable"] > 500


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=100))
def test_raw_bytes_are_no_published_record(raw: bytes) -> None:
    for parse in (parse_alarm, parse_transition, parse_audit):
        with pytest.raises(RecordError):
            parse(raw)


def test_files_of_faust_are_for_the_worker_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from agent.alarms.worker.settings import _scratch_directory

    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = _scratch_directory("alarms")
    assert first.stat().st_mode & 0o777 == 0o700
    assert _scratch_directory("alarms") == first
    first.rmdir()
    (tmp_path / "elsewhere").mkdir()
    first.symlink_to(tmp_path / "elsewhere")
    other = _scratch_directory("alarms")
    assert other != first
    assert not other.is_symlink()
