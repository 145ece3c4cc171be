"""docs/results/faults.md from the results of a campaign; asks the clock, git and the installed versions."""

import os
import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from agent.chaos.faults import FAULTS
from agent.chaos.report import ExperimentResult, FaultOutcome


@dataclass(frozen=True, slots=True)
class Failure:
    """A round that could not be finished."""

    seed: int
    faults: Sequence[str]
    reason: str


@dataclass(slots=True)
class Campaign:
    seed: int
    wanted: int
    member_timeout_s: float
    results: list[ExperimentResult] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    begun_s: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    @property
    def outcomes(self) -> list[FaultOutcome]:
        return [outcome for result in self.results for outcome in result.outcomes]

    @property
    def same(self) -> bool:
        return not self.failures and all(result.same for result in self.results)

    def total(self, name: str) -> int:
        return sum(len(getattr(result.comparison, name)) for result in self.results)


def report(campaign: Campaign) -> str:
    return "\n".join([*_head(campaign), *_sum(campaign), *_kinds(campaign), *_rounds(campaign), *_how(campaign)]) + "\n"


def _head(campaign: Campaign) -> list[str]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    packages = ", ".join(f"{name} {version(name)}" for name in ("anchormoe-agent", "aiokafka", "redis", "torch"))
    cut = "" if len(campaign.outcomes) >= campaign.wanted else f" of {campaign.wanted} planned"
    return [
        "# Faults",
        "",
        f"{len(campaign.outcomes)} faults{cut} in {campaign.seconds / 60:.0f} minutes, {now}. "
        f"Written by `make chaos N={campaign.wanted} SEED={campaign.seed}`.",
        f"Commit {_commit()}, Python {platform.python_version()}, {packages}; Apache Kafka 4.3.0 (one node), "
        f"Redis 6.2; {os.cpu_count()} cores, {platform.machine()}, shared with other work: "
        f"load average {_load(campaign)}.",
        "",
    ]


def _load(campaign: Campaign) -> str:
    return f"{min(campaign.loads):.0f} to {max(campaign.loads):.0f}" if campaign.loads else "unknown"


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"


def _sum(campaign: Campaign) -> list[str]:
    results = campaign.results
    rows = [
        ("records", sum(result.records for result in results)),
        ("events expected (offline replay over the same records)", sum(result.expected for result in results)),
        ("events published, repeats included", sum(result.published for result in results)),
        ("**lost**", campaign.total("missing")),
        ("**extra**", campaign.total("extra")),
        ("**different** (same id, other bytes)", campaign.total("different")),
        ("repeats with the same bytes", sum(result.repeated for result in results)),
        ("repeats with other bytes", sum(result.conflicts for result in results)),
        ("assets whose latest state differs from their last event", sum(len(each.wrong_states) for each in results)),
        ("`history_lost`", sum(result.history_lost for result in results)),
        ("rounds that could not be finished", len(campaign.failures)),
    ]
    return ["| | |", "| --- | ---: |", *(f"| {name} | {value:,} |" for name, value in rows), ""]


def _kinds(campaign: Campaign) -> list[str]:
    """Recovery: until everything is committed that was in the log when the failed part was back."""
    lines = [
        "## By kind",
        "",
        "Seconds until everything was committed that was in the log when the failed part was back (for `zombie`, "
        "`rebalance` and `redis-flush`: since the fault). "
        f"Goal: 15 s after a restart, else the member time-out ({campaign.member_timeout_s:g} s here) + 10 s.",
        "",
        "| fault | what happens | times | median | p90 | max | goal | slower |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, fault in FAULTS.items():
        outcomes = [outcome for outcome in campaign.outcomes if outcome.fault == name]
        if outcomes:
            lines.append(f"| {name} | {fault.description} | {_figures(outcomes)} |")
    lines.append(f"| all | | {_figures(campaign.outcomes)} |")
    return [*lines, "", *_refusals(campaign)]


def _figures(outcomes: Sequence[FaultOutcome]) -> str:
    if not outcomes:
        return "0 | | | | |"
    seconds = [outcome.recovered_s for outcome in outcomes]
    median, p90 = np.quantile(seconds, [0.5, 0.9])
    goals = sorted({f"{outcome.goal_s:g}" for outcome in outcomes})
    slower = sum(not outcome.in_time for outcome in outcomes)
    return f"{len(outcomes)} | {median:.1f} | {p90:.1f} | {max(seconds):.1f} | {' / '.join(goals)} | {slower}"


def _refusals(campaign: Campaign) -> list[str]:
    zombies = [outcome for outcome in campaign.outcomes if outcome.fault == "zombie"]
    refused = sum(outcome.note.startswith("refused") for outcome in zombies)
    return [
        f"Zombies: {refused} of {len(zombies)} tried to write after they were replaced, and all of these were refused.",
        "",
    ]


def _rounds(campaign: Campaign) -> list[str]:
    lines = ["## By round", "", "| seed | faults | expected | lost | extra | different | repeated | s |"]
    lines.append("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    lines += [f"| {_round(result)} |" for result in campaign.results]
    lines += [f"| {failure.seed} | {len(failure.faults)} | not finished | | | | | |" for failure in campaign.failures]
    return [*lines, "", *_reasons(campaign.failures)]


def _round(result: ExperimentResult) -> str:
    compared = result.comparison
    cells: Iterable[object] = (
        result.seed,
        len(result.outcomes),
        result.expected,
        len(compared.missing),
        len(compared.extra),
        len(compared.different),
        result.repeated,
        round(result.seconds),
    )
    return " | ".join(map(str, cells))


def _reasons(failures: Sequence[Failure]) -> list[str]:
    return [line for failure in failures for line in (f"Round {failure.seed}: {failure.reason.splitlines()[0]}", "")]


def _how(campaign: Campaign) -> list[str]:
    return [
        "## How",
        "",
        "Each round writes simulated records (six pumps in four partitions, 200 records/s, with late, repeated, broken "
        "and missing records) to a new topic, runs two agents as processes with emission policy `all`, and injects "
        "faults while records arrive; agents that exit are restarted at once, as a supervisor would. Then the events "
        "without repeats are compared with those of `anchormoe-agent replay` over the same records: ids and bytes. "
        "In every other round Redis has no persistence, so one that was killed comes back empty. The broker allows "
        "member time-outs from "
        f"1 s (`group.min.session.timeout.ms`); the agents use {campaign.member_timeout_s:g} s and a checkpoint every "
        "0.5 s. `anchormoe-agent chaos` does the same on your own test cluster, without the faults that need the "
        "processes of the servers.",
    ]
