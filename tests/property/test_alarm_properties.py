"""Properties: one alarm against a simple model, and a run with crashes against an undisturbed run."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition
from hypothesis.stateful import rule as can_happen

from agent.alarms.core.console import Console
from agent.alarms.core.inputs import EventInput, Input, Tick, decode_input, encode_input
from agent.alarms.core.step import step
from agent.alarms.core.transitions import Transition
from agent.alarms.worker.recovery import restore_console, step_rows
from tests.support.alarm_log import Run, S, at, catalogue, command, event, rule, technical, tick

T = TypeVar("T")
PLANT = catalogue(
    rule("trip", states=frozenset({"tripped"}), hides_children=True),
    rule(on_delay_ns=4 * S, off_delay_ns=3 * S, suppressed_by=frozenset({"trip"}), remind_every_ns=20 * S),
    rule("seal", latched=True, shelve_chatter_ns=30 * S),
    rule("lost", technical="channel_dropout"),
    rule("silent", technical="no_data", limit_ns=15 * S),
    parents=[("pump-2", "pump-1")],
    limits={"flood_count": 3, "flood_within_ns": 30 * S, "flood_over_below": 2, "max_shelving_ns": 50 * S},
)


class SimpleModel:
    """An alarm without delays, in the simplest form."""

    def __init__(self) -> None:
        self.on = self.unseen = self.shown = self.latched = self.removed = False
        self.until: float | None = None

    @property
    def hidden(self) -> bool:
        return self.removed or self.until is not None

    @property
    def state(self) -> str:
        if self.removed:
            return "out_of_service"
        if self.until is not None:
            return "shelved"
        if self.on:
            return "unacknowledged" if self.unseen else "acknowledged"
        return "returned" if self.unseen else "latched" if self.latched else "normal"

    def signal(self, on: bool) -> None:
        if on and not self.on:
            self.unseen, self.latched, self.shown = True, False, not self.hidden
        if self.on and not on:
            self.unseen, self.latched = self.unseen and self.shown, True
        self.on = on

    def reveal(self) -> None:
        if not self.hidden and self.on and self.unseen:
            self.shown = True

    def command(self, verb: str, now: float, until: float | None) -> bool:
        """Whether it was allowed."""
        match verb, self.state:
            case "ack", "unacknowledged" | "returned":
                self.unseen = False
            case "shelve", "shelved" | "out_of_service":
                return False
            case "shelve", _ if until is not None and now < until <= now + 50:
                self.until = until
            case "unshelve", "shelved":
                self.until = None
            case "out-of-service", state if state != "out_of_service":
                self.removed, self.until = True, None
            case "in-service", "out_of_service":
                self.removed = False
            case "reset", "latched":
                self.latched = False
            case "comment", _:
                pass
            case _:
                return False
        self.reveal()
        return True


class AlarmLife(RuleBasedStateMachine):
    """One latching alarm under every order of signals, commands and ticks."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Run(catalogue(rule(latched=True), limits={"max_shelving_ns": 50 * S, "chatter_count": 10**6}))
        self.model, self.now, self.count = SimpleModel(), 0.0, 0
        self.last_event: float | None = None

    @can_happen(on=st.booleans(), later=st.integers(1, 20))
    def signal(self, on: bool, later: int) -> None:
        self.now += later
        self.last_event = self.now
        self.run.apply(event(self.now, 0.9 if on else 0.1))
        self.model.signal(on)

    @can_happen(
        verb=st.sampled_from(["ack", "shelve", "unshelve", "out-of-service", "in-service", "reset", "comment"]),
        ahead=st.one_of(st.none(), st.integers(-5, 80)),
    )
    def command(self, verb: str, ahead: int | None) -> None:
        self.count += 1
        until = None if ahead is None else self.now + ahead
        self.run.apply(command(self.now, verb, until=until, id=str(self.count)))
        allowed = self.model.command(verb, self.now, until)
        assert (self.run.audit[-1].outcome == "done") == allowed

    @can_happen(later=st.integers(1, 30))
    def pass_time(self, later: int) -> None:
        self.now += later
        self.run.apply(tick(self.now))
        if self.model.until is not None and self.now >= self.model.until:
            self.model.until = None
            self.model.reveal()

    @precondition(lambda self: self.last_event is not None)
    @can_happen()
    def repeat(self) -> None:
        """A repeated event changes nothing."""
        self.run.apply(replace(event(self.last_event or 0, 0.9), time_ns=at(self.now)))

    @invariant()
    def agrees(self) -> None:
        assert self.run.state() == self.model.state


AlarmLife.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAlarmLife = AlarmLife.TestCase

CHANCES = (0.0, 0.3, 0.5, 0.9)
VERBS = ("ack", "shelve", "unshelve", "out-of-service", "in-service", "reset", "comment")
ALARMS = ("trip:pump-1", "wear:pump-1", "wear:pump-2", "seal:pump-3", "flood:hall", "rust:pump-1")
ENTRIES = st.tuples(
    st.sampled_from(["state", "state", "state", "channel", "command", "tick", "tick"]),
    st.sampled_from([0, 0.5, 1, 2, 5, 12]),
    st.integers(0, 10**6),
)


def logs() -> st.SearchStrategy[list[Input]]:
    """Any input log: repeats, old events, clock jumps, commands for any alarm."""
    return st.lists(ENTRIES, min_size=1, max_size=40).map(_log)


def _log(drawn: list[tuple[str, float, int]]) -> list[Input]:
    seconds = accumulate(pause for _, pause, _ in drawn)
    return [_entry(kind, second, seed) for (kind, _, seed), second in zip(drawn, seconds, strict=True)]


def _entry(kind: str, second: float, seed: int) -> Input:
    """One drawn number decides the rest, which keeps hypothesis fast."""
    pick = Picks(seed)
    match kind:
        case "state":
            worn, trip = pick.one(CHANCES), pick.one(CHANCES)
            chances = {"worn": worn, "tripped": trip}
            label = "tripped" if trip > 0.6 else None
            back = pick.one((0, 0, 0, 3))
            return event(second - back, worn, asset=f"pump-{pick.one((1, 2, 3))}", state=label, probabilities=chances)
        case "channel":
            name = pick.one(("channel_dropout", "channel_back"))
            return technical(second, name, asset=f"pump-{pick.one((1, 2, 3))}", channel="flow")
        case "command":
            verb, alarm, until = pick.one(VERBS), pick.one(ALARMS), second + pick.one((5, 40, 80))
            return command(second, verb, alarm, until=until, id=f"c{pick.one(range(20))}")
        case _:
            return tick(second + pick.one((0, 0, 0, 0, 9_000)))


class Picks:
    """Choices from one number, smallest first."""

    def __init__(self, seed: int) -> None:
        self._left = seed

    def one(self, choices: Sequence[T]) -> T:
        self._left, place = divmod(self._left, len(choices))
        return choices[place]


@given(logs())
@settings(max_examples=150, deadline=None)
def test_the_log_keeps_what_an_input_says(entries: list[Input]) -> None:
    assert [decode_input(encode_input(entry)) for entry in entries] == entries


@given(logs(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_crash_anywhere_and_a_replay_give_the_same_alarms_and_transitions(
    entries: list[Input], data: st.DataObject
) -> None:
    undisturbed = Run(PLANT).apply(*entries)
    table: dict[bytes, bytes] = {}
    sent: dict[str, Transition] = {}
    place = 0
    crashes = data.draw(st.lists(st.integers(0, len(entries) * 3), max_size=4))
    while place < len(entries):
        console, offset = restore_console("hall", table.items())
        place = max(0, min(place, offset + 1) - data.draw(st.integers(0, 3)))  # the committed offset may lag
        budget = crashes.pop() if crashes else 10**9
        while place < len(entries) and budget >= 0:
            if place > offset:
                result = step(console, PLANT, entries[place])
                sent |= {one.id: one for one in result.transitions}
                rows = list(step_rows(console, result, place))
                for key, value in rows[: max(budget, 0)]:
                    table.pop(key, None) if value is None else table.update({key: value})
                budget -= len(rows)
                if budget < 0:
                    break
                console.apply(result)
            place += 1
    console, offset = restore_console("hall", table.items())
    assert offset == len(entries) - 1
    assert console.alarms == undisturbed.console.alarms
    assert console.state == undisturbed.console.state
    assert console.assets == undisturbed.console.assets
    assert console.commands == undisturbed.console.commands
    assert sent == {one.id: one for one in undisturbed.transitions}


@given(logs(), st.data())
@settings(max_examples=100, deadline=None)
def test_repeated_events_and_commands_change_nothing(entries: list[Input], data: st.DataObject) -> None:
    """Delivery is at least once. Without clock jumps, because a repeat may confirm one."""
    entries = [entry for entry in entries if entry.time_ns < at(5_000)]
    repeated = list(entries)
    for _ in range(data.draw(st.integers(1, 5)) if entries else 0):
        first = data.draw(st.integers(0, len(repeated) - 1))
        again = data.draw(st.integers(first + 1, len(repeated)))
        if not isinstance(repeated[first], EventInput):
            continue
        stamp = repeated[again - 1].time_ns  # it enters the log later, with that time
        repeated.insert(again, replace(repeated[first], time_ns=stamp))
    plain, with_repeats = Run(PLANT).apply(*entries), Run(PLANT).apply(*repeated)
    assert with_repeats.console.alarms == plain.console.alarms
    assert with_repeats.console.state == plain.console.state
    assert [one.id for one in with_repeats.transitions] == [one.id for one in plain.transitions]


@given(logs())
@settings(max_examples=100, deadline=None)
def test_after_a_tick_the_summary_of_a_flood_lists_exactly_what_is_held(entries: list[Input]) -> None:
    console = Console("hall")
    for entry in entries:
        console.apply(step(console, PLANT, entry))
        held = tuple(sorted(name for name, alarm in console.alarms.items() if alarm.held))
        summary = console.alarms.get("flood:hall")
        assert not isinstance(entry, Tick) or (summary.members if summary else ()) == held
        assert not held or console.state.flood.on


@given(logs())
@settings(max_examples=100, deadline=None)
def test_every_change_of_state_is_published_and_in_order(entries: list[Input]) -> None:
    run = Run(PLANT)
    published: dict[str, str] = {}
    for entry in entries:
        result = step(run.console, PLANT, entry)
        run.record(result)
        for one in result.transitions:
            assert published.get(one.alarm, one.before) == one.before
            published[one.alarm] = one.after
        for name, alarm in result.alarms.items():
            assert published.get(name, "normal") == alarm.state or alarm.suppressed_by
    assert len({one.id for one in run.transitions}) == len(run.transitions)
