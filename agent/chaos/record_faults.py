"""Faults that arrive as records: bytes that no decoder likes, wrong clocks, aborted transactions, new partitions."""

import time
from dataclasses import dataclass, replace

import orjson

from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.report import FaultOutcome
from connectors.kafka.fault_injection import add_partitions, write_and_abort, write_compressed, write_header_name
from connectors.records import Record

_HOUR_MS = 3_600_000
_LARGE_BYTES = 3 << 20
_POISON_AT_ONCE = 6


@dataclass(frozen=True, slots=True)
class PoisonRecord:
    """What is written for an asset at a time; `%d` in the value is replaced by that time in milliseconds."""

    name: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


POISON = (
    PoisonRecord("latin-1 in an unknown field", b'{"ts":%d,"flow":1.0,"operator":"M\xfcller"}'),
    PoisonRecord("an unknown name that is not UTF-8", b'{"ts":%d,"flow":1.0,"\xff\xfe":1}'),
    PoisonRecord("a number beyond any float in an unknown field", b'{"ts":%d,"flow":1.0,"serial":1e999}'),
    PoisonRecord("a number beyond any float", b'{"ts":%d,"flow":1e999}'),
    PoisonRecord("an unknown field nested a thousand times", b'{"ts":%d,"x":' + b"[" * 1023 + b"]" * 1023 + b"}"),
    PoisonRecord("nothing but a blank", b" "),
    PoisonRecord("no value", None),
    PoisonRecord("an empty value", b""),
    PoisonRecord("null", b"null"),
    PoisonRecord("a lone surrogate", b'{"ts":%d,"flow":1.0,"note":"\\ud800"}'),
    PoisonRecord("the same field twice", b'{"ts":%d,"flow":1.0,"flow":2.0}'),
    PoisonRecord("a byte order mark", b'\xef\xbb\xbf{"ts":%d,"flow":1.0}'),
    PoisonRecord("a time beyond 64 bits", b'{"ts":99999999999999999999,"flow":1.0}'),
    PoisonRecord("a time that is not one", b'{"ts":"soon","flow":1.0}'),
    PoisonRecord("a key that is not UTF-8", b'{"ts":%d,"flow":1.0}', key=b"\xff\xfe"),
    PoisonRecord("a key with control characters", b'{"ts":%d,"flow":1.0}', key=b"pump-\x1b[2J"),
    PoisonRecord("a key of 10 kB", b'{"ts":%d,"flow":1.0}', key=b"pump-" + b"x" * 10_000),
    PoisonRecord("an unknown name of 300 kB", b'{"ts":%d,"' + b"n" * 300_000 + b'":1}'),
    PoisonRecord("a header that only looks like control", b"x", headers=(("anchormoe-control", b"\xff\xff"),)),
)


async def write_poison(context: FaultContext) -> FaultOutcome:
    """Some forms into every partition, between good records of the same assets."""
    started_s, chosen = time.monotonic(), context.random.sample(POISON, _POISON_AT_ONCE)
    for partition in range(context.workload.partitions):
        asset, now_ms = _asset_in(context, partition), context.workload.newest_ms
        records = [Record(0, now_ms, one.key or asset, _filled(one.value, now_ms), one.headers) for one in chosen]
        await context.workload.write(records, partition=partition)
    note = "; ".join(one.name for one in chosen)
    return FaultOutcome("poison-records", await context.wait_for_recovery(started_s), context.rebalance_goal_s, note)


def _filled(value: bytes | None, now_ms: int) -> bytes | None:
    return None if value is None else value.replace(b"%d", b"%d" % now_ms)


async def write_large(context: FaultContext) -> FaultOutcome:
    """Megabytes that are small on the wire, so that no limit of the broker stops them; a letter about them is not."""
    started_s, partition = time.monotonic(), _any_partition(context)
    asset, now_ms = _asset_in(context, partition), context.workload.newest_ms
    for value in (b"0" * _LARGE_BYTES, b'{"ts":%d,"' % now_ms + b"n" * _LARGE_BYTES + b'":1}'):
        record = Record(0, now_ms, asset, value)
        await write_compressed(context.cluster, context.names.input, record, partition=partition)
    return FaultOutcome("poison-large", await context.wait_for_recovery(started_s), context.rebalance_goal_s)


async def write_header(context: FaultContext) -> FaultOutcome:
    """A good record with a header whose name is not UTF-8, which aiokafka cannot read."""
    started_s, partition = time.monotonic(), _any_partition(context)
    record = Record(0, context.workload.newest_ms, _asset_in(context, partition), b'{"flow":1.0}')
    await write_header_name(context.cluster, context.names.input, record, b"\xff\xfe", partition=partition)
    return FaultOutcome("poison-header", await context.wait_for_recovery(started_s), context.rebalance_goal_s)


async def jump_clock(context: FaultContext) -> FaultOutcome:
    """Samples of an asset whose clock is wrong by hours, days and years, in both directions, for a moment."""
    started_s, partition = time.monotonic(), _any_partition(context)
    asset, now_ms = _asset_in(context, partition), context.workload.newest_ms
    jumps = [context.random.choice((-1, 1)) * hours * _HOUR_MS for hours in (2, 25, 9_000, 100_000)]
    values = [orjson.dumps({"ts": max(now_ms + jump, 0), "flow": 1.0}) for jump in jumps]
    await context.workload.write([Record(0, now_ms, asset, value) for value in values], partition=partition)
    return FaultOutcome("clock-jump", await context.wait_for_recovery(started_s), context.rebalance_goal_s)


async def abort_transaction(context: FaultContext) -> FaultOutcome:
    """Plausible records of known assets that were never committed: they are no data."""
    now_ms, assets = context.workload.newest_ms, range(context.workload.partitions)
    records = {partition: _implausible(_asset_in(context, partition), now_ms) for partition in assets}
    name, after_s = f"{context.names.namespace}-{context.random.randrange(1 << 30)}", context.random.uniform(0.2, 1)
    await write_and_abort(context.cluster, context.names.input, records, name=name, after_s=after_s)
    aborted_s = time.monotonic()
    # A marker at the very end of a log is never committed: some records behind it.
    await context.workload.burst(4 * len(context.workload.assets))
    return FaultOutcome("aborted-transaction", await context.wait_for_recovery(aborted_s), context.rebalance_goal_s)


def _implausible(asset: bytes, now_ms: int) -> list[Record]:
    times_ms = [now_ms + 100 * step for step in range(1, 20)]
    return [Record(0, at, asset, orjson.dumps({"ts": at, "flow": 1e6, "pressure": -1e6})) for at in times_ms]


async def grow_topic(context: FaultContext) -> FaultOutcome:
    """One more partition with an asset of its own, while the agents die: running ones may take minutes to notice."""
    number, first = context.workload.partitions, context.workload.assets[0]
    await add_partitions(context.cluster, context.names.input, number + 1)
    await context.workload.reconnect()
    await context.workload.add_partition(replace(first, name=f"{first.name}-new-{number}"))
    await context.workload.burst(2 * len(context.workload.assets))
    await context.forget_offsets()
    restarted_s = await context.kill_all()
    return FaultOutcome("partition-increase", await context.wait_for_recovery(restarted_s), RESTART_GOAL_S)


def _any_partition(context: FaultContext) -> int:
    return context.random.randrange(context.workload.partitions)


def _asset_in(context: FaultContext, partition: int) -> bytes:
    """One that the workload writes to the partition: k modulo the first partitions, those of new ones last."""
    assets, first = context.workload.assets, context.workload.first_partitions
    at = partition if partition < first else len(assets) - (context.workload.partitions - partition)
    return assets[at].name.encode()
