"""No import cycles, neither between modules nor between the packages they live in.

Imports inside functions count everywhere: they are how a cycle hides from Python and from its reader.
Imports for type checkers only count between packages, since a package that names another one's types cannot be
understood, tested or shipped without it. Two modules of one package may know each other's types.
"""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "anchormoe", "connectors")
Imports = Mapping[str, set[str]]


def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name; a package itself stands for its `__init__`."""
    files = (path.relative_to(ROOT) for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): ROOT / path for path in files}


def imports(package: str, *, for_types: bool) -> Imports:
    known = modules(package)
    return {name: set(_imported(path, known, for_types=for_types)) - {name} for name, path in known.items()}


def between_children(parent: str, of_modules: Imports) -> Imports:
    """Which parts of a package import which: a module or a package directly below it, without its own `__init__`."""
    graph: dict[str, set[str]] = {}
    for name, imported in of_modules.items():
        child = _child(parent, name)
        if child is not None:
            others = {_child(parent, other) for other in imported} - {child, None}
            graph.setdefault(child, set()).update(other for other in others if other is not None)
    return graph


def first_cycle(graph: Imports) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _imported(path: Path, known: Mapping[str, Path], *, for_types: bool) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set() if for_types else {id(node) for block in _type_blocks(tree) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) not in skipped:
            yield from (name for name in _names(node, known) if name in known)


def _type_blocks(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from node.body


def _names(node: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in known else node.module


def _child(parent: str, name: str) -> str | None:
    below = name.removeprefix(f"{parent}.")
    return None if below == name else f"{parent}.{below.partition('.')[0]}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_modules_import_each_other(package: str) -> None:
    assert first_cycle(imports(package, for_types=False)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_packages_import_each_other(package: str) -> None:
    found = imports(package, for_types=True)
    parents = [name for name, path in modules(package).items() if path.name == "__init__.py"]
    cycles = {parent: first_cycle(between_children(parent, _across_packages(parent, found))) for parent in parents}
    assert {parent: cycle for parent, cycle in cycles.items() if cycle} == {}


def _across_packages(parent: str, of_modules: Imports) -> Imports:
    """Without what modules that lie flat in `parent` import of each other: `test_no_two_modules…` is about those."""
    flat = {name for name in of_modules if name.rpartition(".")[0] == parent and not _is_package(name, of_modules)}
    return {name: imported - flat if name in flat else imported for name, imported in of_modules.items()}


def _is_package(name: str, of_modules: Imports) -> bool:
    return any(other.startswith(f"{name}.") for other in of_modules)


def test_a_cycle_through_an_import_inside_a_function_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "__init__": "",
        "low/__init__": "",
        "low/one": "def f():\n    from demo.high.two import g\n",
        "high/__init__": "",
        "high/two": "from demo.low.one import f\n",
        "high/three": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from demo.high.four import C\n",
        "high/four": "import demo.high.three\n",
    }.items():
        file = tmp_path / "demo" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert set(first_cycle(imports("demo", for_types=False))) == {"demo.low.one", "demo.high.two"}
    assert set(first_cycle(between_children("demo", imports("demo", for_types=True)))) == {"demo.low", "demo.high"}
