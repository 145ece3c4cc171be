"""The alarms of a run against the ground truth: missed, false, and how long they took. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.alarms.core.catalogue import Catalogue, Rule
from agent.alarms.core.transitions import Transition
from tests.bench.alarm_month_plant import START_NS, Pump, S
from tests.bench.alarm_month_run import MonthRun, StateInterval

FOREVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class AlarmScore:
    """`by_layer`: labels that lasted longer than the on-delay, without an alarm; `by_all`: true faults, likewise.

    `false`: process alarms at times when the pump had no such fault; of them `confused`: when it had another one, and
    `in_glitches`: when there was a glitch.
    """

    faults: list[StateInterval]
    by_layer: list[StateInterval]
    by_all: list[StateInterval]
    process_alarms: int
    false: int
    confused: int
    in_glitches: int
    delays_s: list[float]


def truth(run: MonthRun, pumps: Sequence[Pump], *, glitches: bool = False) -> list[StateInterval]:
    """Faults or glitches that ended within the run."""
    until_ns = START_NS + run.hours_done * 3600 * S
    return [
        StateInterval(pump.name, one.what, one.begin_ns(), one.end_ns())
        for pump in pumps
        for one in (pump.glitches if glitches else pump.faults)
        if one.end_ns() < until_ns
    ]


def score_alarms(run: MonthRun, pumps: Sequence[Pump], *, window_ns: int, grace_ns: int) -> AlarmScore:
    """A label follows a fault after a window at the earliest; `grace_ns`: how much later it may come."""
    faults, raises = truth(run, pumps), _raises(run.transitions)
    rules = run.catalogue
    false = [one for one in raises if not _explained(rules, one, faults, window_ns)]
    return AlarmScore(
        faults=faults,
        by_layer=[
            one for one in run.label_runs if _should_alarm(rules, one) and not _has_alarm(rules, raises, one, grace_ns)
        ],
        by_all=[
            one
            for one in faults
            if _should_alarm(rules, one, window_ns) and not _has_alarm(rules, raises, one, window_ns)
        ],
        process_alarms=len(raises),
        false=len(false),
        confused=sum(_has_other_fault(one, faults, window_ns) for one in false),
        in_glitches=sum(_explained(rules, one, truth(run, pumps, glitches=True), window_ns) for one in false),
        delays_s=[delay for one in faults if (delay := _delay_s(rules, raises, one, window_ns)) is not None],
    )


def rule_for(catalogue: Catalogue, state: str) -> Rule | None:
    return next((rule for rule in catalogue.rules.values() if state in rule.states), None)


def _should_alarm(catalogue: Catalogue, one: StateInterval, more_ns: int = 0) -> bool:
    rule = rule_for(catalogue, one.state)
    return rule is not None and one.length_ns > rule.on_delay_ns + more_ns


def _has_alarm(catalogue: Catalogue, raises: Iterable[StateInterval], one: StateInterval, grace_ns: int) -> bool:
    """Whether its alarm was active at any time during it."""
    rule = rule_for(catalogue, one.state)
    return any(
        alarm.asset == one.asset
        and rule is not None
        and alarm.state == rule.name
        and alarm.begin_ns <= one.end_ns + grace_ns
        and alarm.end_ns >= one.begin_ns
        for alarm in raises
    )


def _explained(catalogue: Catalogue, alarm: StateInterval, faults: Iterable[StateInterval], grace_ns: int) -> bool:
    """Whether there was such a fault during the alarm's on-delay."""
    rule = catalogue.rules[alarm.state]
    since_ns = alarm.begin_ns - rule.on_delay_ns - 2 * grace_ns
    return any(
        one.asset == alarm.asset
        and one.state in rule.states
        and one.begin_ns <= alarm.begin_ns
        and one.end_ns >= since_ns
        for one in faults
    )


def _has_other_fault(alarm: StateInterval, faults: Iterable[StateInterval], grace_ns: int) -> bool:
    return any(
        one.asset == alarm.asset and one.begin_ns <= alarm.begin_ns <= one.end_ns + 2 * grace_ns for one in faults
    )


def _delay_s(
    catalogue: Catalogue, raises: Iterable[StateInterval], fault: StateInterval, grace_ns: int
) -> float | None:
    rule = rule_for(catalogue, fault.state)
    begins = [
        alarm.begin_ns
        for alarm in raises
        if rule is not None
        and (alarm.asset, alarm.state) == (fault.asset, rule.name)
        and fault.begin_ns <= alarm.begin_ns <= fault.end_ns + grace_ns
    ]
    return (min(begins) - fault.begin_ns) / 1e9 if begins else None


def _raises(transitions: Iterable[Transition]) -> list[StateInterval]:
    """From raise to return of every process alarm; `state` is the rule's name."""
    found: list[StateInterval] = []
    begun: dict[str, Transition] = {}
    for one in transitions:
        if one.kind == "process" and one.change == "raised" and one.rule != "flood":
            begun[one.alarm] = one
        elif one.change == "returned" and one.alarm in begun:
            raised = begun.pop(one.alarm)
            found.append(StateInterval(one.asset, one.rule, raised.at_ns, one.at_ns))
    return found + [StateInterval(one.asset, one.rule, one.at_ns, FOREVER_NS) for one in begun.values()]
