"""What the tests run beside Python: a download that fails once is tried again, and what cannot be had is named."""

import sys
from pathlib import Path

import pytest

from tests.support.programs import fetch_programs
from tests.support.services import requirements
from tests.support.services.requirements import ServiceUnavailable, fetch

WORKS_AT = """
import sys
from pathlib import Path
tries = Path(sys.argv[1])
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
sys.exit("503 slow down" if len(tries.read_text()) < int(sys.argv[2]) else 0)
"""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "_PAUSES_S", (0.0, 0.0))


def command(tries: Path, works_at: int) -> list[str]:
    return [sys.executable, "-S", "-c", WORKS_AT, str(tries), str(works_at)]


def test_a_download_that_fails_is_tried_again_with_all_its_steps(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    fetch(command(first, 1), command(second, 3))
    assert (first.read_text(), second.read_text()) == ("xxx", "xxx")


def test_a_download_that_works_is_not_repeated(tmp_path: Path) -> None:
    fetch(command(tmp_path / "tries", 1))
    assert (tmp_path / "tries").read_text() == "x"


def test_after_three_tries_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServiceUnavailable, match="503 slow down"):
        fetch(command(tmp_path / "tries", 9))
    assert (tmp_path / "tries").read_text() == "xxx"


def test_a_program_that_cannot_be_had_does_not_keep_the_others_from_being_fetched() -> None:
    found: list[str] = []

    def refuse() -> None:
        raise ServiceUnavailable("no registry answers")

    missing = fetch_programs({"one": refuse, "two": lambda: found.append("two")})
    assert missing == ["one: no registry answers"]
    assert found == ["two"]
