"""The soak's ledger and page: an interrupted run counts, the warm-up does not, each run has a level of its own."""

from pathlib import Path

import pytest

from tests.soak.page import soak_page
from tests.soak.samples import Sample, SoakRun, append, append_sample, read_ledger, slope

FACTS = {
    "command": "make soak HOURS=2",
    "date": "2026-01-01 00:00 UTC",
    "commit": "abc",
    "python": "3.11",
    "versions": "redis 8",
    "machine": "2 cores",
    "per_s": 100.0,
    "sustainable_per_s": 200.0,
}


def sample(at_s: float, agent_mb: float, lag: int = 3) -> Sample:
    return Sample(at_s, {"agent": agent_mb, "alarm worker": 100.0}, {"agent": lag, "alarms": 0}, 10, 5, 1.0)


def growing(level_mb: float, mb_per_h: float, hours: int) -> SoakRun:
    return SoakRun(FACTS, [sample(at, level_mb + mb_per_h * at / 3600) for at in range(0, 3600 * hours + 1, 600)])


def test_the_slope_is_common_to_all_runs_and_their_levels_are_their_own() -> None:
    found = slope([growing(900, 2.5, 2), growing(950, 2.5, 3)], "agent")
    assert found is not None
    assert found.mb_per_h == pytest.approx(2.5)
    assert found.error == pytest.approx(0.0, abs=1e-6)


def test_memory_that_grows_only_in_the_warm_up_has_no_slope() -> None:
    run = SoakRun(FACTS, [sample(at, min(900 + at, 2100)) for at in range(0, 7201, 300)])
    assert (found := slope([run], "agent")) is not None
    assert found.mb_per_h == pytest.approx(0.0)


def test_a_run_of_one_sample_gives_no_slope() -> None:
    assert slope([SoakRun(FACTS, [sample(0, 900)])], "agent") is None


def test_an_interrupted_run_counts_with_its_length(tmp_path: Path) -> None:
    ledger = tmp_path / "results" / "soak.jsonl"
    for ended in ("whole", None):
        append(ledger, "run", FACTS)
        for at in range(0, 1801, 60):
            append_sample(ledger, sample(at, 900))
        if ended:
            append(ledger, "ended", ended)
    with ledger.open("ab") as out:
        out.write(b'{"sample": {"at_s": 18')
    runs = read_ledger(ledger)
    assert [(run.seconds, run.ended, len(run.samples)) for run in runs] == [(1800, "whole", 31), (1800, None, 31)]
    page = soak_page(runs)
    assert "1.0 hours in 2 runs" in page
    assert "interrupted" in page
    assert "within the goal" in page


def test_a_leak_is_said() -> None:
    assert "**above the goal**" in soak_page([growing(900, 4.0, 2)])


def test_a_page_without_samples_says_so(tmp_path: Path) -> None:
    assert "Nothing measured yet" in soak_page(read_ledger(tmp_path / "none.jsonl"))
