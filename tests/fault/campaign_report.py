"""docs/results/faults.md from the campaign's ledger; asks the clock and the installed versions."""

import itertools
import math
import os
import platform
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from agent.chaos.faults import FAULTS
from tests.fault.campaign_ledger import Round, read_rounds
from tests.fault.descriptions import DESCRIPTIONS

_RESTART_GOAL_S = 15.0
_LOADS = (0.0, 4.0, 8.0, 16.0, math.inf)


def write_page(ledger: Path, out: Path | None, lanes: int) -> None:
    if out is not None:
        out.write_text(page(read_rounds(ledger), lanes), encoding="utf-8")


def page(rounds: Sequence[Round], lanes: int) -> str:
    counted = [each for each in rounds if not each.dismissed]
    parts = [_head(counted, lanes), _sum(counted), _found(counted), _dismissed(rounds), _kinds(counted)]
    return "\n".join(line for part in [*parts, _recovery(counted), _rounds(counted), _how()] for line in part) + "\n"


def _finished(rounds: Sequence[Round]) -> list[Round]:
    return [each for each in rounds if each.failure is None]


def _outcomes(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """Of finished rounds: what was not compared in the end does not count."""
    return [fault for each in _finished(rounds) for fault in each.faults]


def _head(rounds: Sequence[Round], lanes: int) -> list[str]:
    faults, seconds = _outcomes(rounds), sum(each.seconds for each in rounds)
    loads = [load for each in rounds for load in each.load] or [0.0]
    commits = sorted({each.commit for each in rounds if each.commit != "unknown"})
    packages = ", ".join(f"{name} {version(name)}" for name in ("anchormoe-agent", "aiokafka", "redis", "torch"))
    return [
        "# Faults",
        "",
        f"{len(faults)} faults of {len({each['fault'] for each in faults})} kinds in {len(rounds)} rounds, "
        f"{seconds / 3600:.1f} hours of rounds, of which up to {lanes} ran at the same time. "
        f"Written by `make chaos`, {datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}, from docs/results/faults.jsonl.",
        f"Commits {', '.join(commits)}; Python {platform.python_version()}, {packages}; Apache Kafka 4.3.0 (one broker "
        f"or three), Redis 6.2 (single, Sentinel, Cluster); {os.cpu_count()} cores, {platform.machine()}; load average "
        f"{min(loads):.0f} to {max(loads):.0f}, the other rounds and other work included.",
        "",
    ]


def _sum(rounds: Sequence[Round]) -> list[str]:
    """All rounds; and without those whose cause was found and mended, where there are such."""
    now = [each for each in rounds if not each.mended]
    columns = [("all rounds", rounds)]
    if len(now) < len(rounds):
        columns.append(("without rounds whose cause is mended", now))
    lines = [f"| | {' | '.join(name for name, _ in columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for number, (name, _) in enumerate(_totals(rounds)):
        values = [_totals(own)[number][1] for _, own in columns]
        lines.append(f"| {name} | {' | '.join(f'{value:,}' for value in values)} |")
    return [*lines, ""]


def _totals(rounds: Sequence[Round]) -> list[tuple[str, int]]:
    def total(name: str) -> int:
        return sum(each.counts.get(name, 0) for each in rounds)

    return [
        ("faults", len(_outcomes(rounds))),
        ("records", total("records")),
        ("events expected (offline replay over the same records)", total("expected")),
        ("events published, repeats included", total("published")),
        ("**lost**", sum(each.lost for each in rounds)),
        ("**extra**", sum(each.extra for each in rounds)),
        ("**different** (same id, other bytes)", sum(each.different for each in rounds)),
        ("repeats with the same bytes", total("repeated")),
        ("repeats with other bytes", total("conflicts")),
        ("assets whose latest state differs from their last event", sum(len(each.wrong_states) for each in rounds)),
        ("breaks of the log that no agent reported", sum(len(each.unreported) for each in rounds)),
        ("events beside a break of the log that say `history_lost`", total("excused")),
        ("rounds that could not be finished", len(rounds) - len(_finished(rounds))),
    ]


def _found(rounds: Sequence[Round]) -> list[str]:
    """Where the product was wrong, and what became of it."""
    wrong = [each for each in rounds if not each.same]
    if not wrong:
        return []
    lines = ["Rounds that were not as they should be:", ""]
    for each in wrong:
        what = _reason(each) if each.failure else f"Round {each.seed} ({each.profile})"
        counts = f"{each.lost} lost, {each.extra} extra, {each.different} different"
        lines.append(f"- {what}: {counts}; {f'mended in {each.mended}' if each.mended else '**not mended**'}.")
    return [*lines, ""]


def _dismissed(rounds: Sequence[Round]) -> list[str]:
    reasons = Counter(each.dismissed for each in rounds if each.dismissed)
    if not reasons:
        return []
    lines = [f"Not counted are {sum(reasons.values())} rounds in which the campaign itself was at fault:", ""]
    return [*lines, *(f"- {count}: {reason}." for reason, count in reasons.items()), ""]


def _kinds(rounds: Sequence[Round]) -> list[str]:
    outcomes = _outcomes(rounds)
    described = {name: fault.description for name, fault in FAULTS.items()} | DESCRIPTIONS
    lines = [
        "## By kind",
        "",
        "Seconds until everything was committed that was in the log when the failed part was back, or, where nothing "
        "had to come back, since the fault. Goal: 15 s after a restart, else the member time-out (3 s here) + 10 s; "
        "30 s for a log that is replaced under running agents.",
        "",
        "| fault | what happens | times | median | p99 | max | goal | slower |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, description in described.items():
        own = [each for each in outcomes if each["fault"] == name]
        if own:
            lines.append(f"| {name} | {description} | {_figures(own)} |")
    return [*lines, f"| all | | {_figures(outcomes)} |", "", *_refusals(outcomes)]


def _recovery(rounds: Sequence[Round]) -> list[str]:
    """How the agents were started, and how busy the machine was, decide more than the kind of fault."""
    lines = [
        "## Recovery after a restart",
        "",
        f"Faults with the goal of {_RESTART_GOAL_S:g} s, by the load average of the machine when they were over.",
        "",
        "| agents are started | load average | faults | median | p99 | max | goal | slower |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for started, words in (("anew", "anew, as by a supervisor"), ("forked", "as forks with their libraries loaded")):
        own = _outcomes([each for each in rounds if each.started == started])
        restarts = [each for each in own if each["goal_s"] == _RESTART_GOAL_S]
        for low, high in itertools.pairwise(_LOADS):
            some = [each for each in restarts if low <= each.get("load_average", 0.0) < high]
            if some:
                span = f"{low:g} to {high:g}" if high < math.inf else f"above {low:g}"
                lines.append(f"| {words} | {span} | {_figures(some)} |")
    return [*lines, ""]


def _figures(outcomes: Sequence[dict[str, Any]]) -> str:
    if not outcomes:
        return "0 | | | | |"
    seconds = [each["recovered_s"] for each in outcomes]
    median, p99 = np.quantile(seconds, [0.5, 0.99])
    goals = sorted({each["goal_s"] for each in outcomes})
    slower = sum(each["recovered_s"] > each["goal_s"] for each in outcomes)
    goal = " / ".join(f"{goal:g}" for goal in goals)
    return f"{len(outcomes)} | {median:.1f} | {p99:.1f} | {max(seconds):.1f} | {goal} | {slower}"


def _refusals(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    zombies = [each for each in outcomes if each["fault"] == "zombie"]
    refused = sum(each["note"].startswith("refused") for each in zombies)
    return [
        f"Zombies: {refused} of {len(zombies)} tried to write after they were replaced, and all of these were refused.",
        "",
    ]


def _rounds(rounds: Sequence[Round]) -> list[str]:
    lines = ["## By round", "", "| seed | servers | commit | faults | expected | lost | extra | different | s |"]
    lines.append("| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for each in rounds:
        counts = f"{each.lost} | {each.extra} | {each.different}" if each.failure is None else "not finished | | "
        expected = each.counts.get("expected", 0)
        lines.append(
            f"| {each.seed} | {each.profile} | {each.commit} | {len(each.faults)} | {expected} | {counts} "
            f"| {each.seconds:.0f} |"
        )
    return [*lines, ""]


def _reason(each: Round) -> str:
    return f"Round {each.seed}: {(each.failure or '').splitlines()[0]}"


def _how() -> list[str]:
    return [
        "## How",
        "",
        "Each round has servers of its own: `single` one broker and a Redis that keeps everything, `single-forgetful` "
        "one whose Redis keeps nothing but snapshots, `brokers` three brokers, `brokers-cut` three brokers and a topic "
        "that allows unclean elections, `single-sticky` agents with `source.assignor: sticky`, `sentinel` and "
        "`redis-cluster` what they say, `log` a log that is replaced, "
        "overtaken or moved. It writes simulated records (six pumps in four partitions, 150 records/s, with late, "
        "repeated, broken and missing records) to a new topic, runs two agents as processes with emission policy "
        "`all`, and injects faults while records arrive, each as soon as an agent works and the last fault has "
        "healed; agents that exit are restarted at once, as a supervisor would. In most rounds they are forks of a "
        "process that has imported their libraries, which saves most of the processor time of a start and nothing "
        "else: a fork reads its settings, loads its bundle and opens its connections itself. Then the events without "
        "repeats are compared with those of `anchormoe-agent replay` over the same records: ids and bytes.",
        "",
        "Where the log itself breaks (`log-replaced`, `log-cut`, `retention`, `offsets-…`), equality with one replay "
        "cannot be asked for. The round is divided there: before the break everything is compared as usual; after it, "
        "the events must be those of a replay over what the log holds now, from the first record left on, nothing of "
        "it may be missing, windows that reach back to the break may say `history_lost`, and an agent must have "
        "reported the break. `agent/chaos/judge.py` has the rules.",
        "",
        "The brokers allow member time-outs from 1 s (`group.min.session.timeout.ms`); the agents use 3 s and a "
        "checkpoint every 0.5 s. `anchormoe-agent chaos` does the same on your own test cluster, without the faults "
        "that need the processes of the servers.",
    ]
