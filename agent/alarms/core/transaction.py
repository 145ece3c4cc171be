"""The workbench of one input: reads a console through what the input has already changed, and collects it. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from agent.alarms.core.alarm import Alarm
from agent.alarms.core.catalogue import FLOOD_RULE, Catalogue, Limits, alarm_id
from agent.alarms.core.clock import told
from agent.alarms.core.console import Console, StepResult
from agent.alarms.core.flood import is_over, with_announcement
from agent.alarms.core.inputs import EventInput, Input, Tick
from agent.alarms.core.lifecycle import exposed, raised, returned
from agent.alarms.core.suppression import dependents, hidden_by
from agent.alarms.core.transitions import AuditEntry, Transition, transition_id
from agent.contracts.alarms import Change

SYSTEM = "system"
FLOOD_PRIORITY = "high"


class Transaction:
    """Every list is sorted by id: what a flood holds must not depend on the order of a dictionary."""

    def __init__(self, console: Console, catalogue: Catalogue, entry: Input) -> None:
        self.console, self.catalogue, self.entry = console, catalogue, entry
        clock = told(console.memory.clock, entry.time_ns, catalogue.limits.clock_jump_ns)
        self.out = StepResult(replace(console.memory, clock=clock))
        self.now_ns = clock.now_ns
        if clock.doubted_ns is not None:
            self.out.ignored["clock_jump"] += 1

    @property
    def limits(self) -> Limits:
        return self.catalogue.limits

    def find(self, name: str) -> Alarm | None:
        return self.out.alarms.get(name) or self.console.alarms.get(name)

    def alarms_of(self, asset: str) -> Iterator[Alarm]:
        names = {*self.console.alarms_of(asset)}
        names |= {name for name, alarm in self.out.alarms.items() if alarm.asset == asset}
        return (alarm for name in sorted(names) if (alarm := self.find(name)) is not None)

    def alarms_where(self, wanted: Callable[[Alarm], bool]) -> list[Alarm]:
        every = self.console.alarms | self.out.alarms
        return sorted((alarm for alarm in every.values() if wanted(alarm)), key=lambda alarm: alarm.id)

    def fresh(self, alarm: Alarm) -> Alarm:
        """An alarm that did not exist may be hidden from its first moment."""
        return replace(alarm, suppressed_by=hidden_by(alarm, self.catalogue, self.alarms_of))

    def keep(self, alarm: Alarm) -> Alarm:
        """A change that nobody needs to be told."""
        if alarm != self.find(alarm.id):
            self.out.alarms[alarm.id] = alarm
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
        """A change of the alarm's life: counted if the operator is shown something new, told, and felt by others."""
        if after.annunciated and (change == "raised" or not before.annunciated):
            after = self._announced(after)
        after = replace(after, changed_ns=self.now_ns)
        self.out.alarms[after.id] = after
        told_of = self._transition(before, after, change)
        self.out.transitions.append(replace(told_of, by=by, why=why, event_ns=event.end_ns if event else None))
        if before.hides != after.hides:
            self._rehide(after)
        return after

    def audit(self, alarm: str, act: str, *, by: str, why: str, refused: str = "") -> None:
        if refused:
            self.out.ignored["refused_command"] += 1
        self.out.audit.append(
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

    def end_flood(self) -> None:
        flood = self.out.memory.flood
        if not is_over(flood, self.now_ns, self.limits):
            return
        self.out.memory = replace(self.out.memory, flood=replace(flood, on=False))
        summary, why = self._summary(), "the flood is over"
        self.change(summary, returned(replace(summary, holds=False), self.now_ns, latching=False), "returned", why=why)
        for alarm in self.alarms_where(lambda one: one.held):
            self.change(alarm, replace(alarm, held=False), "released", why=why)

    def list_flood(self) -> None:
        """The summary names what it holds; with ticks, as with every alarm a large flood would cost its square."""
        summary, turned = self._summary(), self.out.memory.flood.on != self.console.memory.flood.on
        if not (turned or isinstance(self.entry, Tick)) or not (self.out.memory.flood.on or summary.members):
            return
        members = tuple(alarm.id for alarm in self.alarms_where(lambda one: one.held))
        if members != summary.members:
            self.out.alarms[summary.id] = replace(summary, members=members, changed_ns=self.now_ns)

    def _announced(self, alarm: Alarm) -> Alarm:
        """In a flood it is held by the summary, which is announced in its place."""
        if alarm.rule == FLOOD_RULE:
            return alarm
        before = self.out.memory.flood
        flood = with_announcement(before, self.now_ns, self.limits)
        self.out.memory = replace(self.out.memory, flood=flood)
        if flood.on and not before.on:
            self._begin_flood()
        return replace(alarm, held=flood.on)

    def _begin_flood(self) -> None:
        summary, limits = self._summary(), self.limits
        why = f"more than {limits.flood_count} alarms in {limits.flood_within_ns // 10**9} s"
        self.change(summary, raised(replace(summary, holds=True), self.now_ns, None), "raised", why=why)

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

    def _rehide(self, master: Alarm) -> None:
        for name in sorted(set(dependents(master, self.catalogue, self._assets(), self.alarms_of))):
            alarm = self.find(name)
            if alarm is not None:
                self._hide_or_show(alarm)

    def _assets(self) -> Iterable[str]:
        return (alarm.asset for alarm in (self.console.alarms | self.out.alarms).values())

    def _hide_or_show(self, alarm: Alarm) -> None:
        masters = hidden_by(alarm, self.catalogue, self.alarms_of)
        after = replace(alarm, suppressed_by=masters, held=alarm.held and not masters)
        if bool(masters) == bool(alarm.suppressed_by):
            self.keep(after)
        elif masters:
            self.change(alarm, after, "suppressed", why=f"by design, by {', '.join(masters)}")
        else:
            self.change(alarm, exposed(after, self.now_ns), "unsuppressed", why="what hid it is over")
