"""Warns when most records that are read cannot be used, and when no records arrive at all.

`InputMonitor` decides from figures that it is given, so it is pure; `monitor_input` takes them and passes warnings on.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import structlog

from agent.dead_letters.letter import LATE, TOO_MANY_ASSETS
from agent.health.counters import Counters
from agent.health.progress import Progress
from agent.health.status import RuntimeStatus

log = structlog.get_logger()

CHECK_EVERY_S = 1.0

Code = Literal["records_unusable", "no_records"]
INPUT_RECOVERED = "input_recovered"

_PERIOD_S = 10.0
_UNUSABLE_SHARE = 0.5
_LEAST_RECORDS = 5
"""Below this a share says little: one late record an hour is no reason to warn."""
_REPEAT_EVERY_S = 60.0
_QUIET_AFTER_S = 30.0
_LONGEST_QUIET_S = 3600.0
_UNKNOWN_ASSET = "unknown_asset"
_OF_EVENTS = "webhook_"
"""Reasons that begin like this are of events that a webhook did not accept, not of records."""

_ADVICE = {
    "empty": "compare the fields of a record with groups[].channels[].field",
    "not_json": "check records.format: it says how values are encoded",
    "bad_chunk": "check the header of the binary chunks against the format",
    "bad_avro": "check which serializer writes the records: their bytes do not follow their schema",
    "bad_line": "check records.format: these values are no line protocol",
    "no_schema_id": "check records.format, and whether the producer writes with a schema registry",
    "unknown_schema": "check records.registry.url: is it the registry of these producers?",
    "schema_mismatch": "compare the schema with the channels, records.time and records.values_field",
    "wrong_type": "compare a record with records and groups[].channels",
    "missing_field": "check records.time.field, records.asset_field and the keys of the records",
    _UNKNOWN_ASSET: "check groups[].assets: no group has these assets; records.unknown_asset: ignore would skip them",
    "unknown_channel": "check that model.bundle is the right one and groups[].channels[].field; "
    "records.unknown_channel: ignore would skip the field",
    "non_finite": "the producer sends NaN or infinite values",
    "bad_timestamp": "check records.time.unit and records.time.utc_offset",
    "clock_far": "check records.time.unit and the clock of the producer; records.max_clock_skew is the limit",
    "wrong_period": "send chunks with the period of the group, or with the time of every sample",
    "too_large": "raise records.max_bytes or records.max_samples",
    "too_many_channels": "raise records.max_channels",
    LATE: "raise window.lateness, or send each asset's records in order; after a wrong clock, use `windows reset`",
    TOO_MANY_ASSETS: "raise max_assets of the group and limits.assets_per_partition",
    "internal": "a fault of the agent: its log has the traceback; report it, and replay the letters once mended",
}
_ADVICE_ELSE = "see `anchormoe-agent dead-letters list`"


@dataclass(frozen=True, slots=True)
class InputFigures:
    """Totals since the start at a time (monotonic seconds), and how the input stands; `lag` is None while unknown."""

    now_s: float
    records: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 0
    lag: int | None = None
    waiting_for_store: bool = False


@dataclass(frozen=True, slots=True)
class InputWarning:
    """A plain sentence for people, and a code for programs."""

    code: Code
    text: str


class InputMonitor:
    """Call `check` about once a second. `source` says where records are expected from.

    `troubled` tells whether either condition holds, also between two warnings.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._recent: deque[InputFigures] = deque()
        self._mostly_unusable = self._quiet = False
        self._warned_unusable_s = float("-inf")
        self._last_record_s: float | None = None
        self._records = 0
        self._warn_after_s = _QUIET_AFTER_S

    @property
    def troubled(self) -> bool:
        return self._mostly_unusable or self._quiet

    def check(self, figures: InputFigures) -> list[InputWarning]:
        found = [self._check_unusable(figures), self._check_quiet(figures)]
        return [warning for warning in found if warning is not None]

    def _check_unusable(self, now: InputFigures) -> InputWarning | None:
        """At once when most records of the last seconds cannot be used, then once a minute while it stays so."""
        self._recent.append(now)
        while len(self._recent) > 2 and now.now_s - self._recent[1].now_s >= _PERIOD_S:
            self._recent.popleft()
        before = self._recent[0]
        reasons = _unusable(now) - _unusable(before)
        unusable = reasons.total()
        # Records count when they are ingested, dead letters when they are published, a little later.
        records = max(now.records - before.records, unusable)
        self._mostly_unusable = unusable >= _LEAST_RECORDS and unusable > _UNUSABLE_SHARE * records
        if not self._mostly_unusable or now.now_s - self._warned_unusable_s < _REPEAT_EVERY_S:
            return None
        self._warned_unusable_s = now.now_s
        return InputWarning("records_unusable", _describe_unusable(now, before, records, reasons))

    def _check_quiet(self, now: InputFigures) -> InputWarning | None:
        """After half a minute without a record, then less and less often."""
        if self._last_record_s is None or now.records != self._records:
            self._last_record_s, self._records, self._warn_after_s = now.now_s, now.records, _QUIET_AFTER_S
        quiet_s = now.now_s - self._last_record_s
        self._quiet = quiet_s >= _QUIET_AFTER_S
        if quiet_s < self._warn_after_s:
            return None
        self._warn_after_s = quiet_s + min(2 * quiet_s, _LONGEST_QUIET_S)
        text = f"no records for {quiet_s:.0f} s from {self._source}: {_describe_quiet(now)}"
        return InputWarning("no_records", text)


def _unusable(figures: InputFigures) -> Counter[str]:
    found = Counter({why: count for why, count in figures.dead_letters.items() if not why.startswith(_OF_EVENTS)})
    found[_UNKNOWN_ASSET] += figures.ignored.get(_UNKNOWN_ASSET, 0)
    return found


def _describe_unusable(now: InputFigures, before: InputFigures, records: int, reasons: Counter[str]) -> str:
    unusable, (reason, count) = reasons.total(), reasons.most_common(1)[0]
    period_s = max(now.now_s - before.now_s, 1.0)
    ignored = now.ignored.get(_UNKNOWN_ASSET, 0) > before.ignored.get(_UNKNOWN_ASSET, 0)
    what = "dead-lettered or ignored" if ignored else "dead-lettered"
    mostly = f"all {reason}" if count == unusable else f"mostly {reason} ({count:,})"
    example = f"; for example {now.examples[reason]}" if reason in now.examples else ""
    advice = _ADVICE.get(reason, _ADVICE_ELSE)
    return f"{unusable:,} of {records:,} records {what} in the last {period_s:.0f} s, {mostly}{example}; {advice}"


def _describe_quiet(now: InputFigures) -> str:
    if now.waiting_for_store:
        return "reading waits for the window store, which does not answer"
    if not now.partitions:
        return "no partition is assigned; does the topic exist, and do other members of the consumer group own it?"
    partitions = f"{now.partitions} partition{'s' if now.partitions > 1 else ''} assigned"
    if now.lag is None:
        return f"{partitions}, lag unknown: the source does not answer"
    if now.lag:
        return f"{partitions}, lag {now.lag:,}: records are waiting but cannot be read"
    return f"{partitions}, lag 0: nothing was produced; check the producers and the name of the topic"


async def monitor_input(
    monitor: InputMonitor,
    counters: Counters,
    progress: Progress,
    status: RuntimeStatus,
    warn: Callable[[str | None], None],
) -> None:
    """Runs until cancelled. Warnings go to the log and to `warn`, which gets None when all is well again."""
    while True:
        troubled = monitor.troubled
        for warning in monitor.check(take_figures(counters, progress, status)):
            log.warning(warning.text, event_code=warning.code)
            warn(warning.text)
        if troubled and not monitor.troubled:
            log.info("records arrive and can be used again", event_code=INPUT_RECOVERED)
            warn(None)
        await asyncio.sleep(CHECK_EVERY_S)


def take_figures(counters: Counters, progress: Progress, status: RuntimeStatus) -> InputFigures:
    return InputFigures(
        now_s=progress.clock(),
        records=counters.records,
        dead_letters=dict(counters.dead_letters),
        ignored=dict(counters.ignored),
        examples=dict(counters.examples),
        partitions=len(status.partitions),
        lag=progress.total_lag,
        waiting_for_store=progress.waiting_for_store,
    )
