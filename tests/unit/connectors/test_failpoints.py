"""An armed failpoint kills the process at the given hit, and nowhere else."""

import subprocess
import sys

import pytest

from connectors import failpoints

HITS_TWICE = """
from connectors.failpoints import arm, hit
arm({armed!r})
for _ in range(2):
    hit("after_publish")
    hit("after_commit")
    print("survived", flush=True)
"""


def outcome(armed: str) -> tuple[int, int]:
    done = subprocess.run([sys.executable, "-c", HITS_TWICE.format(armed=armed)], capture_output=True, text=True)
    return done.returncode, done.stdout.count("survived")


@pytest.mark.parametrize(
    ("armed", "returncode", "survived"),
    [("after_publish", -9, 0), ("after_publish:2", -9, 1), ("after_commit:3", 0, 2), ("after_rings", 0, 2)],
)
def test_the_process_ends_at_the_armed_hit(armed: str, returncode: int, survived: int) -> None:
    assert outcome(armed) == (returncode, survived)


@pytest.mark.parametrize("text", ["", "nowhere", "after_publish:0", "after_publish:x", "after_rings:-1"])
def test_a_point_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ANCHORMOE_FAILPOINT"):
        failpoints.arm(text)


def test_a_raising_point_raises_once_and_only_where_several_are_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_armed", None)
    failpoints.arm("in_decoding:2")
    failpoints.raise_armed("in_model", together=5)
    failpoints.raise_armed("in_decoding", together=5)
    failpoints.raise_armed("in_decoding", together=1)
    with pytest.raises(failpoints.InjectedError, match="in_decoding"):
        failpoints.raise_armed("in_decoding", together=2)
    failpoints.raise_armed("in_decoding", together=2)
