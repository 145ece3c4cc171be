"""Breaks of the log: replaced, overtaken by retention, or left by an operator's word. Each begins a new segment."""

import asyncio
import time
from collections.abc import Mapping

from agent.chaos.context import RESTART_GOAL_S, FaultContext
from agent.chaos.judge import Segment
from agent.chaos.report import FaultOutcome
from connectors.errors import ConnectorError
from connectors.kafka.fault_injection import delete_records, move_group, replace_topic, replication_of
from connectors.timestamps import NS_PER_MS

LOG_REPLACED = ("log_replaced",)
RECORDS_LOST = ("lost_records",)


async def replace_log_running(context: FaultContext) -> FaultOutcome:
    """The topic is deleted and made again under running agents."""
    await _replace(context)
    await begin_segment(context, context.workload.newest_by_asset, {}, LOG_REPLACED)
    return FaultOutcome("log-replaced", await context.wait_for_recovery(time.monotonic()), _NOTICE_GOAL_S)


async def replace_log_stopped(context: FaultContext) -> FaultOutcome:
    """The topic is deleted and made again while no agent runs."""
    agents = context.stop_all()
    await _replace(context)
    await begin_segment(context, context.workload.newest_by_asset, {}, LOG_REPLACED)
    started_s = context.start_all(agents)
    return FaultOutcome("log-replaced-stopped", await context.wait_for_recovery(started_s), RESTART_GOAL_S)


async def overtake(context: FaultContext) -> FaultOutcome:
    """Retention removes records that nobody has read, while no agent runs."""
    agents = context.stop_all()
    first, times_ms = await _write_unread(context)
    await delete_records(context.cluster, context.names.input, first)
    await begin_segment(context, times_ms, first, RECORDS_LOST)
    started_s = context.start_all(agents)
    return FaultOutcome("retention", await context.wait_for_recovery(started_s), RESTART_GOAL_S)


async def skip_by_operator(context: FaultContext) -> FaultOutcome:
    """Offsets are moved forwards with Kafka's own tool: the records in between are not to be used."""
    agents = context.stop_all()
    before = await context.offsets.ends()
    first, times_ms = await _write_unread(context)
    await _move_offsets(context, first)
    skipped = {at: range(before[at], first[at]) for at in first}
    await begin_segment(context, times_ms, first, skipped=skipped)
    started_s = context.start_all(agents)
    return FaultOutcome("offsets-forwards", await context.wait_for_recovery(started_s), RESTART_GOAL_S)


_EMPTY_TIMEOUT_S = 60.0
_TRY_AGAIN_S = 0.3
_UNREAD = 300
_NOTICE_GOAL_S = 30.0
"""A running member notices at its next fetch, or when its metadata expire."""


async def _replace(context: FaultContext) -> None:
    replication = await replication_of(context.cluster, context.names.input)
    partitions = context.workload.partitions
    await replace_topic(context.cluster, context.names.input, partitions, replication=replication)
    await context.workload.reconnect()
    await context.forget_offsets()


async def _move_offsets(context: FaultContext, offsets: Mapping[int, int]) -> None:
    """As soon as the group has no members: those that were killed count until their time-out."""
    deadline = time.monotonic() + _EMPTY_TIMEOUT_S
    while True:
        try:
            await move_group(context.cluster, context.group, context.names.input, offsets)
            return
        except ConnectorError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_TRY_AGAIN_S)


async def _write_unread(context: FaultContext) -> tuple[Mapping[int, int], Mapping[str, int]]:
    """Records that no agent reads now; offsets between them, and the time of each asset there."""
    await context.workload.burst(_UNREAD * len(context.workload.assets))
    between, times_ms = await context.offsets.ends(), dict(context.workload.newest_by_asset)
    await context.workload.burst(_UNREAD * len(context.workload.assets))
    return between, times_ms


async def begin_segment(
    context: FaultContext,
    times_ms: Mapping[str, int],
    begin: Mapping[int, int],
    reported_as: tuple[str, ...] = (),
    *,
    skipped: Mapping[int, range] | None = None,
) -> None:
    """`times_ms`: where each asset is at the break. Writes enough that its last windows do not reach back to it."""
    broken_ns = {asset: at * NS_PER_MS for asset, at in times_ms.items()}
    ended_ns = {asset: at + context.settle_ns for asset, at in broken_ns.items()}
    reach_ns = {asset: at + context.reach_ns for asset, at in broken_ns.items()}
    context.segment = Segment(context.segment.events_from, begin, skipped or {}, ended_ns, reach_ns, reported_as)
    newest_ms = context.workload.newest_by_asset
    while any(newest_ms[asset] * NS_PER_MS < at for asset, at in reach_ns.items()):
        await context.workload.burst(20 * len(context.workload.assets))
    context.workload.resume()
