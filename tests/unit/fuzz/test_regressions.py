"""What the fuzzer and the audits have found stays mended: each file goes through its door again."""

from pathlib import Path

import pytest

from tests.fuzz.cases import read, regression_files
from tests.fuzz.doors import all_doors
from tests.fuzz.quiet import quiet
from tests.fuzz.runner import replay

DIRECTORY = Path(__file__).parents[2] / "fuzz" / "regressions"
FILES = list(regression_files(DIRECTORY))


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.stem}" for path in FILES])
def test_a_past_failure_breaks_nothing(path: Path) -> None:
    regression = read(path)
    with quiet():
        violations = replay(all_doors()[regression.door], regression)
    assert [violation.signature for violation in violations] == []


def test_there_are_past_failures() -> None:
    assert FILES
