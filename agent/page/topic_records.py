"""What the records of the plant's topics tell the page. Records of other versions are shown as they are. Pure."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from agent.alarms.received import parse_alarm, parse_audit
from agent.contracts.published import LastState
from agent.contracts.received import parse_event
from agent.event_types import EVENT_SCHEMA, EVENT_SCHEMA_V1, STATE, TYPE_PREFIX
from agent.page import fleet
from agent.page.letters import letter_of
from agent.page.state import PageState, WindowFacts, event_head
from agent.page.stored_event import StoredEvent
from connectors.errors import RecordError
from connectors.printable import printable
from connectors.records import DEAD_LETTERS, Message, Partition, RecordLike

Headline = Callable[[dict[str, Any]], str]
_VERSIONS = {EVENT_SCHEMA_V1: 1, EVENT_SCHEMA: 2}


class TopicRecords:
    """`event`, `state`, `letter`, `alarm`, `audit` take a record of the topic of that name, whatever is in it."""

    def __init__(self, state: PageState, source: str, headline: Headline) -> None:
        """`source` is the CloudEvents source of this plant: a topic may hold events of others."""
        self._state, self._source, self._headline = state, source, headline

    def event(self, partition: Partition, record: RecordLike) -> None:
        headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers or ()}
        if headers.get("ce_source", self._source) != self._source:
            return
        try:
            parsed = parse_event(record, partition)
        except RecordError as error:
            self._add_unreadable(headers, record, error.detail)
            return
        data = _object(parsed.raw)
        version = _VERSIONS.get(headers.get("ce_dataschema", EVENT_SCHEMA), 0)
        head = event_head(
            parsed.id, _epoch_ms(parsed.time), data, version=version, text=self._words(data, known=version > 0)
        )
        self._state.add_event(StoredEvent(head, parsed.raw, readable=version > 0, problem="" if version else _NEWER))
        if parsed.type == STATE and version:
            self._add_state_event(head.asset, head.group, data, head.time_ms)

    def state(self, partition: Partition, record: RecordLike) -> None:
        """Tombstones say that the asset is forgotten; its last row stays as it is, with its age."""
        if not record.value:
            return
        try:
            last = LastState.model_validate_json(record.value, extra="ignore")
        except ValueError:
            self._state.history.unreadable += 1
            return
        row = self._state.fleet.row(last.asset)
        end_ms = _epoch_ms(last.end)
        known = row is not None and self._state.fleet.state_name(row) == last.state and row.since_ms <= end_ms
        self._state.add_window(
            WindowFacts(
                last.asset,
                last.group,
                last.state,
                _epoch_ms(last.since),
                end_ms,
                p=row.p / 100 if known and row is not None and row.p >= 0 else None,  # that of its last event
                reason=last.abstention,
                flags=fleet.MISSING if last.missing_channels else 0,
            )
        )

    def letter(self, partition: Partition, record: RecordLike) -> None:
        self._state.add_letter(letter_of(Message(DEAD_LETTERS, record.key, record.value, tuple(record.headers or ()))))

    def alarm(self, partition: Partition, record: RecordLike) -> None:
        if not record.value:
            self._state.remove_alarm((record.key or b"").decode(errors="replace"))
            return
        try:
            self._state.add_alarm(parse_alarm(record.value))
        except RecordError:
            self._state.history.unreadable += 1

    def audit(self, partition: Partition, record: RecordLike) -> None:
        try:
            self._state.add_audit(parse_audit(record.value))
        except RecordError:
            self._state.history.unreadable += 1

    def _add_state_event(self, asset: str, group: str, data: dict[str, Any], end_ms: int) -> None:
        state, window, previous = data.get("state"), data.get("window"), self._state.fleet.row(asset)
        if not isinstance(state, str) or not isinstance(window, dict):
            return
        still = previous is not None and self._state.fleet.state_name(previous) == state
        since_ms = previous.since_ms if previous is not None and still and previous.since_ms <= end_ms else end_ms
        last = self._state.history.last_state(asset)
        flags = (fleet.MISSING if window.get("missing_channels") else 0) | (
            fleet.IMPLAUSIBLE if window.get("implausible") else 0
        )
        p = None if last is None else last.p
        reason = data.get("abstention")
        before = data.get("previous_state")
        facts = WindowFacts(asset, group, state, since_ms, end_ms, p, reason, flags)
        self._state.add_window(replace(facts, previous=before if isinstance(before, str) else None))
        if still and previous is not None and previous.end_ms > end_ms:
            self._state.explain(asset, p, reason)  # the last state was read before its event
        if isinstance(data.get("model"), dict):
            self._state.add_model(group, data["model"])

    def _add_unreadable(self, headers: dict[str, str], record: RecordLike, problem: str) -> None:
        """It is counted; where it has an id it is shown raw as well."""
        self._state.history.unreadable += 1
        id, subject = headers.get("ce_id"), headers.get("ce_subject", "")
        if not id:
            return
        head = event_head(id, max(record.timestamp, 0), {}, version=0, asset=subject, text="cannot be read")
        head = head.model_copy(update={"type": headers.get("ce_type", "").removeprefix(TYPE_PREFIX)})
        self._state.add_event(StoredEvent(head, record.value or b"", readable=False, problem=printable(problem)[:500]))

    def _words(self, data: dict[str, Any], *, known: bool) -> str:
        if not known:
            return f"{data.get('asset', '')}: {data.get('type', '')}, of another version"
        try:
            return self._headline(data)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # of version 1, or half of one
            return f"{data.get('asset', '')}: {data.get('type', '')}"


_NEWER = "of a version of the contract that this page does not know"


def _object(raw: bytes) -> dict[str, Any]:
    found = orjson.loads(raw)
    return found if isinstance(found, dict) else {}


def _epoch_ms(time: datetime) -> int:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
