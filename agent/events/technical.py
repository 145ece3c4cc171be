"""Technical events of data and clocks: gaps, clocks that went back, assets that have become idle."""

from functools import partial

from agent.events.fault import Fault
from agent.events.group import GroupRuntime
from agent.events.outgoing import OutgoingEvent
from agent.events.payloads import clock_back_event, gap_event, no_data_event
from agent.windows.group import GroupWindows
from agent.windows.ingest import ClockRegression, DataGap, Ingested
from agent.windows.ring_buffers import NEVER
from connectors.records import Partition


def technical_events(group: GroupRuntime, batch: Ingested, faults: list[Fault]) -> list[OutgoingEvent]:
    """Of a batch: gaps and clocks that went back. One that cannot be built is a fault, and harms no other."""
    builds = [(gap.offset, partial(_gap_event, group, batch.partition, gap)) for gap in batch.gaps]
    builds += [(one.offset, partial(_clock_event, group, batch.partition, one)) for one in batch.clock_regressions]
    events = []
    for offset, build in builds:
        try:
            events.append(build())
        except Exception as error:  # noqa: BLE001  # the last door: see agent.runtime.last_door
            faults.append(Fault("events", error, offset))
    return events


def _gap_event(group: GroupRuntime, partition: Partition, gap: DataGap) -> OutgoingEvent:
    origin = group.origin(gap.asset, partition)
    event = gap_event(origin, last=gap.last, back=gap.back, offset=gap.offset)
    return OutgoingEvent(event, origin, group.spec.channels)


def _clock_event(group: GroupRuntime, partition: Partition, found: ClockRegression) -> OutgoingEvent:
    origin = group.origin(found.asset, partition)
    event = clock_back_event(origin, newest=found.newest, sample=found.index, offset=found.offset)
    return OutgoingEvent(event, origin, group.spec.channels)


def idle_events(
    group: GroupRuntime, windows: GroupWindows, partition: Partition, *, now_s: float, offset: int
) -> list[OutgoingEvent]:
    """`no_data` for every asset that has just become idle by the wall clock. Runs on the event loop."""
    spec, rings, events = group.spec, windows.rings, []
    idle_after_s = spec.idle_after_steps * spec.grid.period_ns / 1e9
    for row in windows.idle.newly_idle(now_s, idle_after_s):
        if rings.names[row] and rings.newest[row] != NEVER:  # neither freed nor reset since
            origin = group.origin(rings.names[row], partition)
            event = no_data_event(origin, newest=int(rings.newest[row]), offset=offset)
            events.append(OutgoingEvent(event, origin, spec.channels))
    return events
