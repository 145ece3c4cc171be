"""The cases: what is sent, and what a run in a process of its own says about it."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import orjson

from agent.health.status import RuntimeStatus
from agent.runtime.instruments import Instruments
from agent.runtime.pipeline import Endpoints, Pipeline, PipelineLimits
from connectors.decoding import encode_chunk
from connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryWindowStore
from connectors.records import Partition
from tests.bench.bounds.plant import CHANNELS, LIMITS, PERIOD_NS, Message, Services, decoder, group, pipeline
from tests.bench.bounds.watch import Seen, watch

_STEPS_APART = 65
_LONG_SAMPLES = 52_000
_LONG_RATE = 10_000.0
"""Windows per second of the model, so that the record takes several sessions."""
_KEYS, _KEY_BYTES = 30_000, 10_000
_PARTITIONS, _MAX_ASSETS = 5, 100
_SLOW_RECORDS, _SLOW_STEPS = 20_000, 70
_NOW_MS = int(time.time() // 60) * 60_000

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """`messages` are sent before `run`, which gets the number of them; both say nothing of each other."""

    title: str
    messages: Callable[[], Iterable[Message]]
    run: Callable[[Services, int], Found]
    partitions: int = 1


def _long_record() -> Iterator[Message]:
    """Every limit kept: bytes, samples, clock skew."""
    span_ms = _LONG_SAMPLES * _STEPS_APART * PERIOD_NS // 1_000_000
    start_ms = _NOW_MS - span_ms // 2
    values = np.random.default_rng(1).normal(size=(_LONG_SAMPLES, len(CHANNELS))).astype(np.float32)
    chunk = encode_chunk(values, start_ns=start_ms * 1_000_000, period_ns=_STEPS_APART * PERIOD_NS)
    yield b"pump-1", chunk, _NOW_MS, 0
    after = encode_chunk(values[:10], start_ns=(start_ms + span_ms) * 1_000_000, period_ns=PERIOD_NS)
    yield b"pump-1", after, _NOW_MS, 0


def _run_long_record(services: Services, records: int) -> Found:
    work = pipeline(services, group(windows_per_s=_LONG_RATE), "binary")
    return _watched(work, records) | {"windows": work.counters.windows}


def _unknown_keys() -> Iterator[Message]:
    for number in range(_KEYS):
        key = f"{number:08d}".encode() * (_KEY_BYTES // 8)
        yield key, orjson.dumps({"ts": _NOW_MS, "c0": 1.0}), _NOW_MS, 0


def _run_unknown_keys(services: Services, records: int) -> Found:
    work = pipeline(services, group(), "wide")
    return _watched(work, records) | {"dead letters": dict(work.counters.dead_letters)}


def _many_assets() -> Iterator[Message]:
    for step in range(40):
        for partition in range(_PARTITIONS):
            for asset in range(_MAX_ASSETS):
                ts = _NOW_MS + step * PERIOD_NS // 1_000_000
                value = orjson.dumps({"ts": ts, **dict.fromkeys(CHANNELS, 1.0)})
                yield f"pump-{partition}-{asset}".encode(), value, ts, partition


def _run_many_assets(services: Services, records: int) -> Found:
    work = pipeline(services, group(max_assets=_MAX_ASSETS), "wide")
    found = _watched(work, records)
    refused = work.counters.dead_letters["too_many_assets"]
    return found | {"assets": _PARTITIONS * _MAX_ASSETS - refused // 40, "dead letters": refused}


def _nothing() -> Iterator[Message]:
    yield from ()


def _run_slow_sensor(services: Services, records: int) -> Found:
    """In memory: what is compared is the processor time of the agent alone."""
    found: Found = {}
    for name, steps in (("steady", 1), ("slow", _SLOW_STEPS)):
        work, seconds = asyncio.run(_take_in(steps))
        stages = work.status.stages
        found[f"{name} records/s"] = _SLOW_RECORDS / seconds
        found[f"{name} taken in/s"] = _SLOW_RECORDS / (stages["decode"].total + stages["ingest"].total)
        found[f"{name} windows per record"] = work.counters.windows / _SLOW_RECORDS
        found[f"{name} windows/s"] = work.counters.windows / seconds
    return found


async def _take_in(steps: int) -> tuple[Pipeline, float]:
    at = Partition("sensors", 0)
    log = MemoryLog([at])
    for number in range(_SLOW_RECORDS):
        ts = _NOW_MS + number * steps * PERIOD_NS // 1_000_000
        log.append(at, orjson.dumps({"ts": ts, **dict.fromkeys(CHANNELS, 1.0)}), key=b"pump-1", timestamp_ms=ts)
    endpoints = Endpoints(MemorySource(log, bounded=True), MemoryWindowStore(), MemorySink())
    limits = PipelineLimits(checkpoint_every_s=1e9, checkpoint_records=1 << 40)
    instruments = Instruments(status=RuntimeStatus(clock=time.thread_time))
    work = Pipeline(endpoints, decoder("wide"), {"all": group()}, limits, instruments=instruments)
    began = time.process_time()
    await work.run(asyncio.Event())
    return work, time.process_time() - began


def _watched(work: Pipeline, records: int) -> Found:
    seen: Seen = asyncio.run(watch(work, records))
    return asdict(seen) | {"session_kept": seen.session_kept, "queue_windows": LIMITS.queue_windows}


CASES = {
    "long": Case("One legal record that stands for very many windows", _long_record, _run_long_record),
    "slow": Case("A sensor far slower than its grid", _nothing, _run_slow_sensor),
    "keys": Case("Unknown keys of 10 kB", _unknown_keys, _run_unknown_keys),
    "limit": Case("Five partitions with one limit", _many_assets, _run_many_assets, _PARTITIONS),
}
