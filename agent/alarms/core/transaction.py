"""Collects what one input changes, and reads the console as if those changes were already applied. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import FLOOD_RULE, Catalogue, Limits, Rule, alarm_id
from agent.alarms.core.console import Console, StepResult
from agent.alarms.core.inputs import EventInput, Input, Tick
from agent.alarms.core.lifecycle import annunciate_if_visible, raise_alarm, return_alarm
from agent.alarms.core.rates import is_flood_over, record_announcement
from agent.alarms.core.suppression import dependents, suppressing_alarms
from agent.alarms.core.transitions import AuditEntry, Transition, transition_id
from agent.contracts.alarms import Change

SYSTEM = "system"
FLOOD_PRIORITY = "high"
MAX_MEMBERS = 1_000
"""The summary of a flood names this many of the alarms that it holds: it must fit into a Kafka record."""


class Transaction:
    """Every list is sorted by id, so that the result does not depend on the order of a dictionary."""

    def __init__(self, console: Console, catalogue: Catalogue, entry: Input) -> None:
        self.console, self.catalogue, self.entry = console, catalogue, entry
        clock = console.state.clock.advance(entry.time_ns, jump_ns=catalogue.limits.clock_jump_ns)
        self.result = StepResult(replace(console.state, clock=clock))
        self.now_ns = clock.now_ns
        if clock.doubted_ns is not None:
            self.result.ignored["clock_jump"] += 1

    @property
    def limits(self) -> Limits:
        return self.catalogue.limits

    def find(self, name: str) -> Alarm | None:
        return self.result.alarms.get(name) or self.console.alarms.get(name)

    def alarms_of(self, asset: str) -> Iterator[Alarm]:
        names = {*self.console.alarms_of(asset)}
        names |= {name for name, alarm in self.result.alarms.items() if alarm.asset == asset}
        return (alarm for name in sorted(names) if (alarm := self.find(name)) is not None)

    def alarms_where(self, wanted: Callable[[Alarm], bool]) -> list[Alarm]:
        every = self.console.alarms | self.result.alarms
        return sorted((alarm for alarm in every.values() if wanted(alarm)), key=lambda alarm: alarm.id)

    def new_alarm(self, name: str, rule: Rule, asset: str, channel: str | None = None) -> Alarm:
        """An alarm that did not exist; it may be suppressed from the start."""
        alarm = Alarm(name, rule.name, asset, channel)
        return replace(alarm, suppressed_by=suppressing_alarms(alarm, self.catalogue, self.alarms_of))

    def store(self, alarm: Alarm) -> Alarm:
        """A change without a transition."""
        if alarm != self.find(alarm.id):
            self.result.alarms[alarm.id] = alarm
        return alarm

    def change(
        self,
        before: Alarm,
        after: Alarm,
        change: Change,
        *,
        by: str = SYSTEM,
        why: str = "",
        event: EventInput | None = None,
    ) -> Alarm:
        """A change with a transition. 1. Count an announcement. 2. Store and record. 3. Update dependent alarms."""
        if after.annunciated and (change == "raised" or not before.annunciated):
            after = self._announce(after)
        after = replace(after, changed_ns=self.now_ns)
        self.result.alarms[after.id] = after
        transition = self._transition(before, after, change)
        event_ns = event.end_ns if event else None
        self.result.transitions.append(replace(transition, by=by, why=why, event_ns=event_ns))
        if before.can_suppress != after.can_suppress:
            self._update_dependents(after)
        return after

    def audit(self, alarm: str, act: str, *, by: str, why: str, refused: str = "") -> None:
        if refused:
            self.result.ignored["refused_command"] += 1
        self.result.audit.append(
            AuditEntry(
                id=transition_id(alarm, self.entry.id, act, "audit"),
                console=self.console.name,
                alarm=alarm,
                act=act,
                by=by,
                why=why,
                at_ns=self.now_ns,
                outcome="refused" if refused else "done",
                reason=refused,
                input=self.entry.id,
            )
        )

    def end_flood_if_over(self) -> None:
        flood = self.result.state.flood
        if not is_flood_over(flood, self.now_ns, self.limits):
            return
        self.result.state = replace(self.result.state, flood=replace(flood, on=False))
        summary, why = self._summary(), "the flood is over"
        after = return_alarm(replace(summary, holds=False), self.now_ns, latching=False)
        self.change(summary, after, "returned", why=why)
        for alarm in self.alarms_where(lambda one: one.held):
            self.change(alarm, replace(alarm, held=False), "released", why=why)

    def update_flood_members(self) -> None:
        """The summary lists what it holds. Only with ticks: with every alarm a flood would cost its size squared."""
        summary, turned = self._summary(), self.result.state.flood.on != self.console.state.flood.on
        if not (turned or isinstance(self.entry, Tick)) or not (self.result.state.flood.on or summary.members):
            return
        members = tuple(alarm.id for alarm in self.alarms_where(lambda one: one.held)[:MAX_MEMBERS])
        if members != summary.members:
            self.result.alarms[summary.id] = replace(summary, members=members, changed_ns=self.now_ns)

    def _announce(self, alarm: Alarm) -> Alarm:
        """In a flood the alarm is held, and only the summary is announced."""
        if alarm.rule == FLOOD_RULE:
            return alarm
        before = self.result.state.flood
        flood = record_announcement(before, self.now_ns, self.limits)
        self.result.state = replace(self.result.state, flood=flood)
        if flood.on and not before.on:
            self._begin_flood()
        return replace(alarm, held=flood.on)

    def _begin_flood(self) -> None:
        summary, limits = self._summary(), self.limits
        why = f"more than {limits.flood_count} alarms in {limits.flood_within_ns // 10**9} s"
        self.change(summary, raise_alarm(replace(summary, holds=True), self.now_ns, None), "raised", why=why)

    def _summary(self) -> Alarm:
        name = alarm_id(FLOOD_RULE, self.console.name)
        return self.find(name) or Alarm(name, FLOOD_RULE, self.console.name)

    def _transition(self, before: Alarm, after: Alarm, change: Change) -> Transition:
        rule = self.catalogue.rules.get(after.rule)
        news = change in ("raised", "released") or before.state != "unacknowledged"
        return Transition(
            id=transition_id(after.id, self.entry.id, after.state, change),
            alarm=after.id,
            console=self.console.name,
            rule=after.rule,
            asset=after.asset,
            channel=after.channel,
            priority=rule.rationale.priority if rule else FLOOD_PRIORITY,
            kind=rule.kind if rule else "technical",
            change=change,
            before=before.state,
            after=after.state,
            at_ns=self.now_ns,
            input=self.entry.id,
            occurrence=after.occurrences,
            announces=after.state == "unacknowledged" and news and not after.held,
            held=after.held,
        )

    def _update_dependents(self, cause: Alarm) -> None:
        for name in sorted(set(dependents(cause, self.catalogue, self._assets(), self.alarms_of))):
            alarm = self.find(name)
            if alarm is not None:
                self._update_suppression(alarm)

    def _assets(self) -> Iterator[str]:
        """Lazy: only few alarms have dependents beyond their own asset, and a console may have many alarms."""
        yield from (alarm.asset for alarm in (self.console.alarms | self.result.alarms).values())

    def _update_suppression(self, alarm: Alarm) -> None:
        causes = suppressing_alarms(alarm, self.catalogue, self.alarms_of)
        after = replace(alarm, suppressed_by=causes, held=alarm.held and not causes)
        if bool(causes) == bool(alarm.suppressed_by):
            self.store(after)
        elif causes:
            self.change(alarm, after, "suppressed", why=f"by design, by {', '.join(causes)}")
        else:
            visible = annunciate_if_visible(after, self.now_ns)
            self.change(alarm, visible, "unsuppressed", why="what hid it is over")
