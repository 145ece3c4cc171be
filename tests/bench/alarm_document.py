"""The results of a run as a page of docs/results. Pure."""

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from agent.alarms.kpis import Period, figures
from agent.alarms.report import report_lines
from tests.bench.alarm_month_plant import CHUNK, START_NS, Pump, S
from tests.bench.alarm_month_run import OPERATOR_S, TICK_S, MonthRun, StateInterval
from tests.bench.alarm_recovery import Recovery
from tests.bench.alarm_score import AlarmScore, score_alarms, truth

WINDOW_NS = 12_800_000_000
"""A window of the pump model; a label cannot follow a fault any faster."""
MONTH_H = 720
COMMAND = "python -m tests.bench.alarms --out docs/results/alarms.md"


def document(run: MonthRun, pumps: Sequence[Pump], measured: Recovery | None, *, hop: int) -> Iterator[str]:
    grace_ns = WINDOW_NS + hop * S // 10
    found = score_alarms(run, pumps, window_ns=grace_ns, grace_ns=hop * S // 10)
    duration = "a simulated month" if run.hours_done >= MONTH_H else f"{run.hours_done / 24:.1f} simulated days"
    yield from [f"# Alarms: {duration}", "", f"Written by `{COMMAND}`; do not edit.", ""]
    yield from [*_setting(run, pumps, found, hop), ""]
    yield from ["## Labels against alarms", "", *_labels_against_alarms(run, found), ""]
    yield from ["## Against the targets of ISA-18.2 / IEC 62682", "", *_standard(run), ""]
    yield from ["## Missed and false", "", *_misses(run, found), ""]
    if measured is not None:
        yield from ["## Recovery", "", *_recovery(measured)]


def _setting(run: MonthRun, pumps: Sequence[Pump], found: AlarmScore, hop: int) -> Iterator[str]:
    lengths = sorted(one.length_ns / 60e9 for one in found.faults)
    until_ns = START_NS + run.hours_done * 3600 * S
    outages = Counter(one.what for pump in pumps for one in pump.outages if one.begin_ns() < until_ns)
    yield (
        f"{len(pumps)} simulated pumps for {run.hours_done / 24:.1f} days of plant time, ten samples a second in "
        f"records of {CHUNK // 10} s, through the agent's own decoding, windows and model (the shipped bundle: "
        f"{run.model}), a window every {hop / 10:g} s, all of them published: {run.windows} windows. The "
        f"pumps have {len(found.faults)} faults of {lengths[0]:.0f} to {lengths[-1]:.0f} min (median "
        f"{median(lengths):.0f}), {len(truth(run, pumps, glitches=True))} glitches of 2 to 8 s, {outages['sensor']} "
        f"broken sensors, {outages['silence']} lost connections, and every five minutes a stutter of up to 10 s."
    )
    yield ""
    yield (
        "The rules are those of configs/alarms.yaml with longer delays (faults: on 30 s, off 1 min) and low priority "
        f"for bearing wear. Ticks every {TICK_S} s and an operator who acknowledges after {OPERATOR_S} s are simulated "
        f"too. It took {run.cpu_s / 60:.1f} min of one core ({platform.machine()})."
    )


def _labels_against_alarms(run: MonthRun, found: AlarmScore) -> Iterator[str]:
    raised = Counter(one.kind for one in run.transitions if one.change == "raised")
    yield "| what | number |"
    yield "|---|---|"
    yield f"| changes of the raw label | {run.raw['changes']} |"
    yield f"| of these, into a fault | {run.raw['into a fault']} |"
    yield f"| true faults | {len(found.faults)} |"
    yield f"| process alarms raised | {raised['process']} |"
    yield f"| technical alarms raised | {raised['technical']} |"
    yield f"| alarms announced to the operator | {sum(one.announces for one in run.transitions)} |"


def _standard(run: MonthRun) -> Iterator[str]:
    for one in figures(run.transitions, Period(START_NS, START_NS + run.hours_done * 3600 * S)):
        yield "| figure | value | target | met |"
        yield "|---|---|---|---|"
        for line in report_lines(one):
            met = {True: "yes", False: "**no**", None: ""}[line.met]
            yield f"| {line.name} | {line.value} | {line.target} | {met} |"
        yield ""
        yield "Most frequent: " + ", ".join(f"{alarm} {count}" for alarm, count in one.bad_actors) + "."


def _misses(run: MonthRun, found: AlarmScore) -> Iterator[str]:
    yield (
        f"- By the alarm layer: of {len(run.label_runs)} intervals in which the model gave one fault without a "
        f"break, {len(found.by_layer)} lasted longer than their on-delay and raised no alarm."
    )
    yield from (f"  - {_interval_text(one)}" for one in found.by_layer[:20])
    yield (
        f"- By model and alarms together: of {len(found.faults)} true faults, {len(found.by_all)} lasted longer than "
        "their on-delay and a window, and had no alarm of their own."
    )
    yield from (f"  - {_interval_text(one)}" for one in found.by_all[:20])
    yield (
        f"- False: {found.false} of {found.process_alarms} process alarms came while the pump had no such fault; "
        f"in {found.confused} of them it had another one, in {found.in_glitches} a glitch."
    )
    if len(found.delays_s) > 1:
        slow = quantiles(found.delays_s, n=10, method="inclusive")[-1]
        yield (
            f"- From the begin of a fault to its alarm: median {median(found.delays_s):.0f} s, nine in ten within "
            f"{slow:.0f} s; on-delay and the filling of a window included."
        )


def _interval_text(one: StateInterval) -> str:
    return f"{one.state} of {one.asset}, {one.length_ns / 1e9:.0f} s"


def _recovery(found: Recovery) -> Iterator[str]:
    yield (
        f"Measured at commit {found.version or 'unknown'}. A worker with {found.alarms} alarms was killed with "
        f"`kill -9` and started again on a real broker: **{found.recovered_s:.1f} s** from its start until every "
        f"alarm had answered the next tick (a worker without alarms needs {found.start_s:.1f} s from its start to its "
        "first transition; 6 s session time-out of the group included after the kill). Raising them took "
        f"{found.alarms / found.inputs_per_s:.1f} s, {found.inputs_per_s:.0f} inputs/s, each with its own transition, "
        "present alarm and rows acknowledged."
    )
    if not found.both_s:
        return
    yield ""
    yield (
        f"Both of two workers killed at once and two started at once, {len(found.both_s)} times: median "
        f"**{median(found.both_s):.1f} s**, at most {max(found.both_s):.1f} s from their start until all four consoles "
        "had answered; Python's start and the group's session time-out of 6 s are in it."
    )
