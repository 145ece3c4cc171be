"""docs/results/faults.md from the outcomes of a campaign. Pure but for the clock and the versions."""

import os
import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from agent.chaos.faults import INJURIES
from agent.chaos.report import ExperimentResult, FaultOutcome


@dataclass(frozen=True, slots=True)
class Failure:
    """A round that could not be finished."""

    seed: int
    injuries: Sequence[str]
    reason: str


@dataclass(slots=True)
class Campaign:
    seed: int
    wanted: int
    member_timeout_s: float
    outcomes: list[ExperimentResult] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    begun_s: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    @property
    def wounds(self) -> list[FaultOutcome]:
        return [wound for outcome in self.outcomes for wound in outcome.wounds]

    @property
    def same(self) -> bool:
        return not self.failures and all(outcome.same for outcome in self.outcomes)

    def total(self, name: str) -> int:
        return sum(len(getattr(outcome.comparison, name)) for outcome in self.outcomes)


def report(campaign: Campaign) -> str:
    return "\n".join([*_head(campaign), *_sum(campaign), *_kinds(campaign), *_rounds(campaign), *_how(campaign)]) + "\n"


def _head(campaign: Campaign) -> list[str]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    packages = ", ".join(f"{name} {version(name)}" for name in ("anchormoe-agent", "aiokafka", "redis", "torch"))
    cut = "" if len(campaign.wounds) >= campaign.wanted else f" of {campaign.wanted} planned"
    return [
        "# Faults",
        "",
        f"{len(campaign.wounds)} injuries{cut} in {campaign.seconds / 60:.0f} minutes, {now}. "
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
    outcomes = campaign.outcomes
    rows = [
        ("records", sum(outcome.records for outcome in outcomes)),
        ("events expected (offline replay over the same records)", sum(outcome.expected for outcome in outcomes)),
        ("events published, repeats included", sum(outcome.published for outcome in outcomes)),
        ("**lost**", campaign.total("missing")),
        ("**extra**", campaign.total("extra")),
        ("**different** (same id, other bytes)", campaign.total("different")),
        ("repeats with the same bytes", sum(outcome.repeated for outcome in outcomes)),
        ("repeats with other bytes", sum(outcome.conflicts for outcome in outcomes)),
        ("assets whose last state is not that of their last event", sum(len(each.wrong_states) for each in outcomes)),
        ("`history_lost`", sum(outcome.history_lost for outcome in outcomes)),
        ("rounds that could not be finished", len(campaign.failures)),
    ]
    return ["| | |", "| --- | ---: |", *(f"| {name} | {value:,} |" for name, value in rows), ""]


def _kinds(campaign: Campaign) -> list[str]:
    """Recovery: until everything is committed that was in the log when the injured part was back."""
    lines = [
        "## By kind",
        "",
        "Seconds until everything was committed that lay in the log when the injured part was back (for `zombie`, "
        "`rebalance` and `redis-flush`: since the injury). "
        f"Goal: 15 s after a restart, else the member time-out ({campaign.member_timeout_s:g} s here) + 10 s.",
        "",
        "| injury | what happens | times | median | p90 | max | goal | beyond |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, injury in INJURIES.items():
        own = [wound for wound in campaign.wounds if wound.injury == name]
        if own:
            lines.append(f"| {name} | {injury.meaning} | {_figures(own)} |")
    lines.append(f"| all | | {_figures(campaign.wounds)} |")
    return [*lines, "", *_refusals(campaign)]


def _figures(wounds: Sequence[FaultOutcome]) -> str:
    if not wounds:
        return "0 | | | | |"
    seconds = [wound.recovered_s for wound in wounds]
    median, p90 = np.quantile(seconds, [0.5, 0.9])
    goals = sorted({f"{wound.goal_s:g}" for wound in wounds})
    beyond = sum(not wound.in_time for wound in wounds)
    return f"{len(wounds)} | {median:.1f} | {p90:.1f} | {max(seconds):.1f} | {' / '.join(goals)} | {beyond}"


def _refusals(campaign: Campaign) -> list[str]:
    zombies = [wound for wound in campaign.wounds if wound.injury == "zombie"]
    refused = sum(wound.note.startswith("refused") for wound in zombies)
    return [
        f"Zombies: {refused} of {len(zombies)} tried to write after they were replaced, and all of these were refused.",
        "",
    ]


def _rounds(campaign: Campaign) -> list[str]:
    lines = ["## By round", "", "| seed | injuries | expected | lost | extra | different | repeated | s |"]
    lines.append("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    lines += [f"| {_round(outcome)} |" for outcome in campaign.outcomes]
    lines += [f"| {failure.seed} | {len(failure.injuries)} | not finished | | | | | |" for failure in campaign.failures]
    return [*lines, "", *_reasons(campaign.failures)]


def _round(outcome: ExperimentResult) -> str:
    compared = outcome.comparison
    cells: Iterable[object] = (
        outcome.seed,
        len(outcome.wounds),
        outcome.expected,
        len(compared.missing),
        len(compared.extra),
        len(compared.different),
        outcome.repeated,
        round(outcome.seconds),
    )
    return " | ".join(map(str, cells))


def _reasons(failures: Sequence[Failure]) -> list[str]:
    return [line for failure in failures for line in (f"Round {failure.seed}: {failure.reason.splitlines()[0]}", "")]


def _how(campaign: Campaign) -> list[str]:
    return [
        "## How",
        "",
        "Each round writes a known stream (six pumps in four partitions, 200 records/s, with late, repeated, broken "
        "and missing records) into a new topic, runs two agents as processes with emission policy `all`, and injures "
        "them while records flow; agents that end are started again at once, as a supervisor would. Then the events "
        "without repeats are compared with those of `anchormoe-agent replay` over the same records: ids and bytes. "
        "Every other round's Redis keeps nothing on disk, so a killed one comes back empty. The broker allows member "
        "time-outs from "
        f"1 s (`group.min.session.timeout.ms`); the agents use {campaign.member_timeout_s:g} s and a checkpoint every "
        "0.5 s. `anchormoe-agent trial` does the same on a cluster of yours, without the injuries that need the "
        "servers' processes.",
    ]
