"""The command line starts quickly because heavy libraries are imported only by the commands that need them."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "aiokafka", "redis", "aeon", "sklearn", "numba", "pandas", "matplotlib", "faust")
PROGRAM = """
import sys
from agent.cli.main import main
sys.argv = ["anchormoe-agent", *sys.argv[1:]]
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
print("imported:", *sys.modules, file=sys.stderr)
"""


def imported_by(*arguments: str) -> set[str]:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return set(finished.stderr.rpartition("imported:")[2].split())


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("validate", "--help")])
def test_asking_for_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    imported = imported_by(*arguments)
    assert "agent.cli.main" in imported
    assert imported & set(HEAVY) == set()


def test_printing_a_schema_needs_neither_model_nor_clients() -> None:
    imported = imported_by("schema", "settings")
    assert "agent.settings" in imported
    assert imported & set(HEAVY) == set()


BUNDLES = Path(__file__).parents[2] / "configs" / "bundles"
NOT_SERVING = {"torch", "sympy", "triton", "sklearn", "pandas", "matplotlib"}
"""A CPU serves with numba: these cost seconds at every start and hundreds of megabytes."""
SERVE = """
import sys
import numpy as np
from anchormoe import Predictor
for directory in sys.argv[1:]:
    predictor = Predictor.load(directory)  # checks the golden windows
    assert set(predictor.backends.values()) == {"numba"}, predictor.backends
    shape = (2, len(predictor.config.channels), predictor.config.length)
    windows, mask = np.zeros(shape), np.ones(shape, bool)
    mask[1, 0, 3:] = False
    found = predictor.predict(windows, mask)
    assert np.isfinite(found.logits).all()
    predictor.judge.judge(np.where(mask, windows, np.nan))
    predictor.normal, predictor.examples
print("imported:", *sys.modules, file=sys.stderr)
"""


def imported_while_serving(program: str, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", program, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert finished.returncode == 0, finished.stderr
    return set(finished.stderr.rpartition("imported:")[2].split())


def test_a_bundle_is_loaded_and_predicts_on_a_cpu_without_torch() -> None:
    imported = imported_while_serving(SERVE, *(str(bundle) for bundle in sorted(BUNDLES.iterdir())))
    assert "anchormoe.experts.numba_backend" in imported
    assert imported & NOT_SERVING == set()


def test_the_demo_runs_without_torch() -> None:
    """Simulator, windows, plausibility, events, console: the whole way of a sample."""
    config = str(BUNDLES.parent / "demo.yaml")
    imported = imported_while_serving(PROGRAM, "run", "--config", config, "--for", "2s")
    assert "agent.events.assemble" in imported
    assert imported & NOT_SERVING == set()
