"""What is installed is known: pinned, by hash, without addresses; and it can be listed as an SBOM."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
TORCH = re.compile(r"^(torch|triton|nvidia-.*|cuda-.*)$")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def locked(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, tuple[str, list[str]]] = {}
    for line in filter(None, text.splitlines()):
        requirement, *hashes = line.split(" --hash=")
        name, _, version = requirement.partition(";")[0].strip().partition("==")
        found[canonicalize_name(name)] = (version, [each.strip() for each in hashes])
    return found


def test_there_are_locks_for_serving_for_gpus_for_development_and_for_torch() -> None:
    assert [path.stem for path in LOCKS] == ["development", "gpu", "serving", "torch"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_package_of_a_lock_has_hashes_and_the_version_of_the_constraints(path: Path) -> None:
    pinned = constraints()
    assert len(locked(path)) > 3
    for name, (version, hashes) in locked(path).items():
        assert version == pinned[name], name
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), name


@pytest.mark.parametrize("name", ["constraints.txt", *(f"locks/{path.name}" for path in LOCKS)])
def test_nothing_says_where_packages_come_from(name: str) -> None:
    assert not re.search(r"://|index-url|find-links|trusted-host", (ROOT / name).read_text())


def test_torch_is_in_its_own_lock_because_its_builds_differ() -> None:
    torch = locked(ROOT / "locks" / "torch.txt")
    assert "torch" in torch
    assert all(TORCH.match(name) for name in torch)
    for name in ("serving", "gpu", "development"):
        assert not any(TORCH.match(package) for package in locked(ROOT / "locks" / f"{name}.txt"))


def installed_closure(extras: list[str]) -> set[str]:
    """What the extras lead to on this machine, by the metadata of what is installed; without torch's own family."""
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    wanted += [requirement for extra in extras for requirement in extra_requirements(extra)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        requirement = wanted.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key not in seen:
            seen.add(key)
            wanted += list(dependencies(requirement))
    return {name for name, _ in seen if not TORCH.match(name)}


def extra_requirements(extra: str) -> Iterator[Requirement]:
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for inner in requirement.extras:
                yield from extra_requirements(inner)
        else:
            yield requirement


def dependencies(requirement: Requirement) -> Iterator[Requirement]:
    try:
        texts = requires(requirement.name) or []
    except PackageNotFoundError:
        return  # for another platform
    for text in texts:
        inner = Requirement(text)
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        if inner.marker is None or any(inner.marker.evaluate(environment) for environment in environments):
            yield inner


@pytest.mark.parametrize(
    ("name", "extras"), [("serving", ["serve", "alarms"]), ("gpu", ["gpu", "alarms"]), ("development", ["dev"])]
)
def test_a_lock_has_everything_that_is_needed_and_the_tool_to_build_with(name: str, extras: list[str]) -> None:
    assert installed_closure(extras) | {"setuptools"} <= set(locked(ROOT / "locks" / f"{name}.txt"))


def test_serving_needs_neither_torch_nor_what_torch_brings() -> None:
    assert not {"torch", "sympy", "networkx"} & set(locked(ROOT / "locks" / "serving.txt"))
    assert not any(requirement.name == "torch" for requirement in extra_requirements("serve"))
    assert any(requirement.name == "numba" for requirement in extra_requirements("serve"))


def test_make_checks_hashes_before_anything_else_is_installed() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for lock, extra in (("serving", "serve"), ("development", "dev")):
        then = rf".*\n\t@\$\(AGAIN\) \$\(PIP\) --editable '\.\[{extra}\]'"
        assert re.search(rf"@\$\(AGAIN\) \$\(LOCKED\) locks/{lock}\.txt {then}", makefile)


@pytest.mark.parametrize(("works_at", "tries", "status"), [(1, 1, 0), (2, 2, 0), (3, 3, 0), (9, 3, 1)])
def test_make_tries_an_installation_three_times(tmp_path: Path, works_at: int, tries: int, status: int) -> None:
    [again] = re.findall(r"^AGAIN = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    install = f"install() {{ echo x >> tries; test $(wc -l < tries) -ge {works_at}; }}; sleep() {{ :; }}; "
    done = subprocess.run(["bash", "-c", install + again.replace("$$", "$") + " install"], cwd=tmp_path, check=False)
    assert (len((tmp_path / "tries").read_text().split()), done.returncode) == (tries, status)


def test_every_target_that_make_names_has_a_recipe_and_a_line_of_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    described = re.findall(r"^([a-z-]+): .*## .*\n\t", makefile, re.MULTILINE)
    assert set(phony.split()) - {"setup", "clean"} <= set(described)
    assert not re.search(r"^[<=>]{7}", makefile, re.MULTILINE)


def test_the_readme_installs_what_was_tested() -> None:
    for name in ("README.md", "deploy/README.md"):
        for line in (ROOT / name).read_text().splitlines():
            if re.search(r"pip install .*\.\[", line) or re.search(r"pip install .*'\.'", line):
                assert "--constraint constraints.txt" in line, line


@pytest.mark.slow  # building the schema's grammars takes a minute of processor, and several on a busy machine
def test_the_bill_of_materials_is_valid_and_names_every_package(tmp_path: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    command = re.search(r"-m cyclonedx_py (.*?)\$\(BIN\)/python\n", (ROOT / "Makefile").read_text(), re.DOTALL)
    assert command is not None
    arguments = command[1].replace("\\\n", " ").replace("build/sbom.cdx.json", str(tmp_path / "sbom.json")).split()
    subprocess.run([sys.executable, "-m", "cyclonedx_py", *arguments, sys.executable], cwd=ROOT, check=True)
    text = (tmp_path / "sbom.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    named = {canonicalize_name(each["name"]): each["version"] for each in document["components"]}
    assert document["metadata"]["component"]["name"] == PROJECT["name"]
    assert installed_closure(["dev"]) <= set(named)
    assert "torch" in named
