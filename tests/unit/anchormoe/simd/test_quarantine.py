"""Hand-written instructions stay in anchormoe.simd (docs/decisions/0008)."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[4]
INTERNAL = ("llvmlite", "numba.core", "numba.extending")


def imported_modules(file: Path) -> Iterator[str]:
    """Also by imports inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def users_of_internals(folder: str) -> set[str]:
    files = (ROOT / folder).rglob("*.py")
    return {
        file.relative_to(ROOT).parent.as_posix()
        for file in files
        if any(f"{name}.".startswith(f"{module}.") for name in imported_modules(file) for module in INTERNAL)
    }


def test_only_the_simd_package_uses_llvmlite_and_the_internals_of_numba() -> None:
    assert users_of_internals("anchormoe") == {"anchormoe/simd"}
    assert users_of_internals("agent") == users_of_internals("connectors") == set()
