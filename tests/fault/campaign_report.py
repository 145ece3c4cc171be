"""docs/results/faults.md from the campaign's ledger; asks the clock and the installed versions."""

import os
import platform
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


def write_page(ledger: Path, out: Path | None, lanes: int) -> None:
    if out is not None:
        out.write_text(page(read_rounds(ledger), lanes), encoding="utf-8")


def page(rounds: Sequence[Round], lanes: int) -> str:
    return "\n".join([*_head(rounds, lanes), *_sum(rounds), *_kinds(rounds), *_rounds(rounds), *_how()]) + "\n"


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
    def total(name: str) -> int:
        return sum(each.counts.get(name, 0) for each in rounds)

    rows = [
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
    return ["| | |", "| --- | ---: |", *(f"| {name} | {value:,} |" for name, value in rows), ""]


def _kinds(rounds: Sequence[Round]) -> list[str]:
    outcomes = _outcomes(rounds)
    described = {name: fault.description for name, fault in FAULTS.items()} | DESCRIPTIONS
    restarts = [each for each in outcomes if each["goal_s"] == _RESTART_GOAL_S]
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
    lines += [f"| all with a restart | | {_figures(restarts)} |", f"| all | | {_figures(outcomes)} |", ""]
    return [*lines, *_refusals(outcomes)]


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
    failed = [each for each in rounds if each.failure is not None]
    return [*lines, "", *(line for each in failed for line in (_reason(each), ""))]


def _reason(each: Round) -> str:
    return f"Round {each.seed}: {(each.failure or '').splitlines()[0]}"


def _how() -> list[str]:
    return [
        "## How",
        "",
        "Each round has servers of its own: `single` one broker and a Redis that keeps everything, `single-forgetful` "
        "one whose Redis keeps nothing but snapshots, `brokers` three brokers, `brokers-cut` three brokers and a topic "
        "that allows unclean elections, `sentinel` and `redis-cluster` what they say, `log` a log that is replaced, "
        "overtaken or moved. It writes simulated records (six pumps in four partitions, 150 records/s, with late, "
        "repeated, broken and missing records) to a new topic, runs two agents as processes with emission policy "
        "`all`, and injects faults while records arrive, each as soon as an agent works and the last fault has "
        "healed; agents that exit are restarted at once, as a supervisor would. Then the events without repeats are "
        "compared with those of `anchormoe-agent replay` over the same records: ids and bytes.",
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
