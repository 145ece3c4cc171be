"""Reads what the agents of an experiment published, segment by segment, and has it judged."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from agent.chaos.agents import event_codes
from agent.chaos.config import ExperimentNames
from agent.chaos.context import FaultContext
from agent.chaos.judge import Segment, Verdict, describe, judge, merge
from agent.chaos.report import ExperimentResult, FaultOutcome, wrong_states
from agent.offline.event_set import EventName, EventSet
from agent.offline.replay import replay
from agent.settings import LoadedPlant
from connectors.kafka.bounded import BoundedKafkaSource, read_batches, read_records
from connectors.kafka.cluster import Cluster
from connectors.records import EVENTS, Message

_READ_TIMEOUT_S = 600.0


class Judges:
    """Judges the segments of an experiment, each when it ends: afterwards its log may be gone."""

    def __init__(
        self, plant: LoadedPlant, cluster: Cluster, names: ExperimentNames, report: Callable[[str], None]
    ) -> None:
        self._plant, self._cluster, self._names, self._report = plant, cluster, names, report
        self._verdicts: list[Verdict] = []
        self._published = self._repeated = self._conflicts = 0
        self._unreported: list[str] = []
        self._wrong_states: list[str] = []
        self._log_positions: dict[str, int] = {}

    async def close_segment(self, context: FaultContext) -> None:
        """Everything that was written is published: compare it, and begin the next segment."""
        segment = context.segment
        source = BoundedKafkaSource(self._cluster, [self._names.input])
        replayed = await replay(self._plant, source, stop=asyncio.Event(), report=lambda done, total: None)
        published, codes, ends = await self._read_events(segment)
        self._verdicts.append(judge(replayed.events, published, segment))
        for line in describe(self._verdicts[-1], segment):
            self._report(f"segment {len(self._verdicts)}: {line}")
        codes |= self._logged_codes(context)
        if segment.reported_as and not codes & set(segment.reported_as):
            self._unreported.append(segment.reported_as[0])
        self._wrong_states = wrong_states(published.values(), [state async for state in self._read_states()])
        context.segment = Segment(events_from=ends)

    def result(self, seed: int, records: int, outcomes: Sequence[FaultOutcome], seconds: float) -> ExperimentResult:
        verdict = merge(self._verdicts)
        return ExperimentResult(
            namespace=self._names.namespace,
            seed=seed,
            seconds=seconds,
            records=records,
            outcomes=outcomes,
            comparison=verdict.comparison,
            published=self._published,
            repeated=self._repeated,
            conflicts=self._conflicts,
            history_lost=verdict.history_lost,
            wrong_states=self._wrong_states,
            segments=len(self._verdicts),
            excused=verdict.excused,
            unreported=self._unreported,
        )

    async def _read_events(self, segment: Segment) -> tuple[EventSet, set[str], dict[int, int]]:
        """The events of the segment without repeats, their types, and where the next segment begins."""
        published, types, ends, count = EventSet(), set[str](), dict(segment.events_from), 0
        async for batch in read_batches(self._cluster, self._names.outputs["events"], timeout_s=_READ_TIMEOUT_S):
            first = segment.events_from.get(batch.partition.number, 0)
            for record in (record for record in batch.records if record.offset >= first):
                message = Message(EVENTS, record.key, record.value, tuple(record.headers))
                types.add(EventName.of(message).type)
                published.add(message)
                count += 1
            ends[batch.partition.number] = max(first, batch.records[-1].offset + 1)
        self._published += count
        self._conflicts += published.conflicts
        self._repeated += count - len(published) - published.conflicts
        return published, types, ends

    def _logged_codes(self, context: FaultContext) -> set[str]:
        """Event codes in the agents' logs since the last segment."""
        found: set[str] = set()
        for agent in context.fleet:
            begin = self._log_positions.get(agent.name, 0)
            content = agent.read_log(begin)
            self._log_positions[agent.name] = begin + len(content)
            found |= event_codes(content)
        return found

    async def _read_states(self) -> AsyncIterator[bytes]:
        async for record in read_records(self._cluster, self._names.outputs["states"], timeout_s=_READ_TIMEOUT_S):
            if record.value is not None:
                yield record.value
