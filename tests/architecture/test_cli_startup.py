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


LOAD = """
import sys
from pathlib import Path
from anchormoe import Predictor
Predictor.load(Path(sys.argv[1]))
print("imported:", *sys.modules)
"""


def test_loading_a_bundle_does_not_import_the_compiler_of_torch() -> None:
    """An agent that is restarted would spend more time on it than on everything else together."""
    bundle = Path(__file__).parents[2] / "configs" / "bundles" / "pump"
    command = [sys.executable, "-c", LOAD, str(bundle)]
    imported = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout.split()
    assert "torch" in imported
    assert {"torch._dynamo", "torch._inductor", "sympy"} & set(imported) == set()
