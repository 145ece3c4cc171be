"""docs/results/soak.md from the ledger. Pure."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from agent.terminal.sparkline import sparkline
from tests.soak.receiver import LONG_EVERY, LONG_S, REFUSED_EVERY, USUAL_S
from tests.soak.samples import Sample, SoakRun, slope

GOAL_MB_PER_H = 1.0
_WIDTH = 60


def soak_page(runs: Sequence[SoakRun]) -> str:
    known = [run for run in runs if run.steady]
    if not known:
        return "# Soak\n\nNothing measured yet.\n"
    return "\n".join([*_head(known), *_memory(known), *_runs(known), *_pictures(known), *_how()]) + "\n"


def _head(runs: Sequence[SoakRun]) -> list[str]:
    facts, hours = runs[-1].facts, sum(run.seconds for run in runs) / 3600
    return [
        "# Soak",
        "",
        f"{hours:.1f} hours in {len(runs)} {'run' if len(runs) == 1 else 'runs'}. "
        f"Written by `{facts['command']}`, {facts['date']}.",
        f"Commit {facts['commit']}, Python {facts['python']}, {facts['versions']}; {facts['machine']}.",
        "",
    ]


def _memory(runs: Sequence[SoakRun]) -> list[str]:
    lines = [
        f"Resident memory after the warm-up, goal below {GOAL_MB_PER_H:g} MB/h:",
        "",
        "| process | after the warm-up, MB | at the end, MB | larger than before in | slope, MB/h | |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for process in runs[-1].samples[-1].memory_mb:
        steady = runs[-1].steady
        first, last = (steady[at].memory_mb[process] for at in (0, -1))
        lines.append(f"| {process} | {first:.1f} | {last:.1f} | {_rises(steady, process)} | {_slope(runs, process)} |")
    note = "A leak with every event is larger in nearly every sample; what rises in few steps is a new high-water mark."
    return [*lines, "", note, ""]


def _rises(samples: Sequence[Sample], process: str) -> str:
    sizes = [sample.memory_mb[process] for sample in samples]
    return f"{sum(after > before for before, after in pairwise(sizes))} of {max(len(sizes) - 1, 0)} samples"


def _slope(runs: Sequence[SoakRun], process: str) -> str:
    found = slope(runs, process)
    if found is None:
        return "| too short"
    verdict = "within the goal" if found.mb_per_h < GOAL_MB_PER_H else "**above the goal**"
    return f"{found.mb_per_h:+.2f} ± {found.error:.2f} | {verdict}"


def _runs(runs: Sequence[SoakRun]) -> list[str]:
    lines = [
        "## By run",
        "",
        "| date | commit | minutes | records/s | of sustainable | events | lag at most | at the end | load average | |",
    ]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    for run in runs:
        cells = (
            run.facts["date"],
            run.facts["commit"],
            f"{run.seconds / 60:.0f}",
            f"{run.facts['per_s']:,.0f}",
            f"{run.facts['per_s'] / run.facts['sustainable_per_s']:.0%}",
            f"{run.samples[-1].events:,}",
            _lags([max(sample.lag[name] for sample in run.steady) for name in run.samples[-1].lag], run),
            _lags(list(run.samples[-1].lag.values()), run),
            _load(run),
            run.ended or "interrupted",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", "Lag in records, of the agent and of the alarm worker, over the part after the warm-up.", ""]


def _load(run: SoakRun) -> str:
    """Of the whole machine: others may have kept the agent from its work."""
    loads = [sample.load_average for sample in run.steady]
    return f"{min(loads):.0f} to {max(loads):.0f}, median {float(np.median(loads)):.0f}"


def _lags(lags: Sequence[int], run: SoakRun) -> str:
    return ", ".join(f"{name} {lag:,}" for name, lag in zip(run.samples[-1].lag, lags, strict=True))


def _pictures(runs: Sequence[SoakRun]) -> list[str]:
    """From 0 to the maximum."""
    run = runs[-1]

    def line(name: str, values: Sequence[float]) -> str:
        return f"{name:24} {sparkline(np.array([0.0, *values]), _WIDTH)} {max(values):,.0f}"

    memory = [line(f"{name}, MB", [each.memory_mb[name] for each in run.samples]) for name in _names(run.samples)]
    lags = [line(f"lag of {name}", [each.lag[name] for each in run.samples]) for name in run.samples[-1].lag]
    load = line("load average", [each.load_average for each in run.samples])
    return ["```", *memory, *lags, load, "```", ""]


def _names(samples: Sequence[Sample]) -> list[str]:
    return list(samples[-1].memory_mb)


def _how() -> list[str]:
    return [
        "## How",
        "",
        "One agent and one alarm worker as processes on a Kafka broker and a Redis of their own; simulated pumps with "
        "late, repeated, broken and missing records; every window is an event. First a backlog shows what the whole "
        "chain sustains; then half of that flows for the rest of the time. Events and alarms also go to a webhook "
        f"receiver that answers after {USUAL_S:g} s, every {LONG_EVERY}th time after {LONG_S:g} s, and every "
        f"{REFUSED_EVERY}th time with 503. The warm-up, 20 minutes or the first third of a shorter run, does not "
        "count. The slope is a least-squares line with a level of its own for each run; ± is its standard error.",
    ]
