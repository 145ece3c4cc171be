"""A short run of the fuzzer through every door, always the same one; `make fuzz` runs millions."""

from pathlib import Path

import pytest

from tests.fuzz.campaign import known_inputs
from tests.fuzz.doors import all_doors
from tests.fuzz.quiet import quiet
from tests.fuzz.runner import run_chunk

SEED = 20_261_118
INPUTS = {"http-requests": 128, "webhook-answers": 64, "settings": 15, "bundles": 40, "stored-data": 100}
RUNS = [
    (door.name, variant)
    for door in all_doors().values()
    for variant in (door.variants[:1] if door.name == "bundles" else door.variants)
]
KNOWN = known_inputs(Path(__file__).parents[1] / "fuzz" / "regressions")


@pytest.mark.parametrize(("door", "variant"), RUNS, ids=[f"{door}-{variant}" for door, variant in RUNS])
def test_whatever_comes_in_is_used_ignored_or_refused_exactly_once(door: str, variant: str) -> None:
    count, first = INPUTS.get(door, 800), KNOWN.get((door, variant), [])
    with quiet():
        result = run_chunk(all_doors()[door], variant, SEED, count, first=first)
    found = [f"{finding.signature}: {finding.regression.inputs}"[:2_000] for finding in result.findings.values()]
    assert found == []
    outcome = result.outcome
    ended = outcome.used + outcome.ignored + outcome.control + sum(outcome.refused.values())
    assert ended == result.inputs


def test_control_records_are_obeyed_where_a_setting_accepts_them() -> None:
    with quiet():
        result = run_chunk(all_doors()["wide"], "wide-control", SEED, 3_000)
    assert result.outcome.control > 0
    assert result.outcome.refused["bad_control"] > 0
